"""A KernelBench-shaped harness on a CPU, as its evaluator of commit 423217d goes about it.

    python harness.py CHECKOUT LEVEL RUN fp32 bf16

Each problem's text runs in a dictionary of its own; both models are built under one seed, and everything, integers
too, is cast to one floating type; both see the same tensors; torch.allclose has the last word. Problems are made small
by constants set behind their text. Prints a JSON object a problem and precision: whether the run's kernel passed, and
whether the reference's result in float64, rounded once, does.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dlrm_bench.problems import load_problems

SEED, TRIALS = 42, 2
PRECISIONS = {"fp32": (torch.float32, 1e-4), "bf16": (torch.bfloat16, 1e-2)}


def cast(values: list[Any], dtype: torch.dtype) -> list[Any]:
    return [each.to(dtype=dtype).to(device="cpu") if isinstance(each, torch.Tensor) else each for each in values]


def load(path: Path) -> type[torch.nn.Module]:
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ModelNew


@torch.no_grad()
def evaluate(text: str, candidate: Path, precision: str) -> dict[str, Any]:
    dtype, tolerance = PRECISIONS[precision]
    names: dict[str, Any] = {}
    exec(text, names)
    torch.manual_seed(SEED)
    arguments = cast(names["get_init_inputs"](), dtype)
    torch.manual_seed(SEED)
    reference = names["Model"](*arguments).to(dtype)
    ModelNew = load(candidate)
    torch.manual_seed(SEED)
    model = ModelNew(*arguments).to(dtype)
    close = partial(torch.allclose, atol=tolerance, rtol=tolerance)
    passed, possible = 0, 0
    for trial in range(TRIALS):
        torch.manual_seed(trial)
        inputs = cast(names["get_inputs"](), dtype)
        expected, given = reference(*inputs), model(*inputs)
        passed += expected.shape == given.shape and close(expected, given)
        exact = reference.double()(*[each.double() if each.is_floating_point() else each for each in inputs])
        possible += close(expected, exact.to(expected.dtype))
        reference.to(dtype)
    return {"passed": passed == TRIALS, "possible": possible == TRIALS}


def main() -> None:
    checkout, level, run, *precisions = sys.argv[1:]
    for problem in load_problems(f"kernelbench:{checkout}/level{level}"):
        constants = problem.constants("small") if problem.card else {}
        text = problem.code + "".join(f"\n{name} = {value!r}" for name, value in constants.items())
        file = Path(checkout) / "runs" / run / f"level_{level}_problem_{problem.id}_sample_0_kernel.py"
        for precision in precisions:
            said = evaluate(text, file, precision)
            print(json.dumps({"id": problem.id, "precision": precision, **said}), flush=True)


if __name__ == "__main__":
    main()
