"""What is on a GPU must stay there: no submission of ours makes tensors on the CPU that meet its inputs.

Without a GPU that would show on nobody's machine. So tensors on a CPU pretend to be somewhere else here, and what mixes
them with others fails as it would on a GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dlrm_bench.correctness.judge import fresh_seed
from dlrm_bench.correctness.oracle import Oracle
from dlrm_bench.problems import DEFAULT_CASE, ProblemSet

TESTS = Path(__file__).parents[1]
HONEST = sorted((TESTS / "honest" / "submissions").glob("*.py"))
# The others do things to the process that they run in.
ATTACKS = sorted((TESTS / "attacks" / "submissions").glob("output_*.py"))
ELSEWHERE = torch.device("meta")
BETWEEN_DEVICES = {torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default}


class Away(Tensor):
    """A tensor on a CPU that says it is elsewhere."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Away:
        away: Away = Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=ELSEWHERE
        )
        away.held = held
        return away

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{operator} of a tensor that is away, where nobody carries it out")

    def tolist(self) -> Any:
        return self.held.tolist()


class Border(TorchDispatchMode):
    """Carries out what is asked of tensors that are away, and refuses to mix them with others."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        given = [each for each in tree_leaves((args, options)) if isinstance(each, Tensor)]
        away = {id(each.held): each for each in given if isinstance(each, Away)}
        # A single number may come from the CPU.
        mixed = bool(away) and any(each.dim() for each in given if not isinstance(each, Away))
        if mixed and operator not in BETWEEN_DEVICES:
            raise RuntimeError(f"{operator} is given tensors on two devices")
        stays = options.get("device") == ELSEWHERE if options.get("device") is not None else bool(away)
        options = {name: torch.device("cpu") if name == "device" else each for name, each in options.items()}
        args, options = tree_map(lambda each: each.held if isinstance(each, Away) else each, (args, options))

        def brought_back(result: Any) -> Any:
            if not isinstance(result, Tensor) or not stays:
                return result
            # What is written in place is handed back as it was given.
            return away[id(result)] if id(result) in away else Away(result)

        return tree_map(brought_back, operator(*args, **options))


def send_away(model: nn.Module) -> None:
    for owner in model.modules():
        for names in (owner._parameters, owner._buffers, vars(owner)):
            names.update({name: Away(each.detach()) for name, each in names.items() if isinstance(each, Tensor)})


def run_away(source: str, problem: int, problems: ProblemSet) -> Any:
    oracle = Oracle(problems.find(problem), "small", DEFAULT_CASE, "fp32", torch.device("cpu"))
    names: dict[str, Any] = {}
    exec(source, names)
    model = names["ModelNew"](*oracle.init_inputs)
    send_away(model)
    inputs = [Away(each) if isinstance(each, Tensor) else each for each in oracle.draw_inputs(fresh_seed())]
    with Border(), torch.no_grad():
        return model(*inputs)


def submissions() -> Iterator[Any]:
    for path in HONEST:
        yield pytest.param(path, int(path.stem.split("_")[0]), id=path.stem)
    for path in ATTACKS:
        [problem] = [
            ast.literal_eval(node.value)["problem"]
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXPECT"
        ]
        yield pytest.param(path, problem, id=path.stem)


@pytest.mark.parametrize(("path", "problem"), list(submissions()))
def test_it_stays_on_its_inputs_device(path: Path, problem: int, problems: ProblemSet) -> None:
    output = run_away(path.read_text(), problem, problems)
    assert not isinstance(output, Tensor) or output.device == ELSEWHERE


HERE = "torch.zeros(offsets.numel() - 1, 32)"
MIXED = "torch.arange(offsets.numel() - 1) + offsets[1:]"
SPLIT = "indices.tensor_split(offsets)"


def returning(expression: str) -> str:
    return f"""
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()

    def forward(self, indices, offsets):
        return {expression}
"""


def test_an_output_on_the_cpu_is_seen(problems: ProblemSet) -> None:
    assert run_away(returning(HERE), 1, problems).device.type == "cpu"


@pytest.mark.parametrize("expression", [MIXED, SPLIT])
def test_a_mixture_is_refused(expression: str, problems: ProblemSet) -> None:
    with pytest.raises(RuntimeError, match=r"on two devices|to be on cpu"):
        run_away(returning(expression), 1, problems)
