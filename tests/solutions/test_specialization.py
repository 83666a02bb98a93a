"""Whatever the inputs, a solution launches kernels that are compiled once: none is compiled anew while it is timed.

Triton compiles a kernel again where a pointer is a multiple of 16 bytes and was not, where an integer is 1 or a
multiple of 16 and was not, or where it no longer fits 32 bits.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from dlrm_bench.correctness.oracle import Oracle
from dlrm_bench.problems import Problem
from dlrm_bench.submissions import solution

triton = pytest.importorskip("triton")
SEEDS = range(24)

Launch = tuple[str, tuple[object, ...]]


def imported(source: str, folder: Path) -> ModuleType:
    path = folder / "submission.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kind_of(parameter: Any, value: Any) -> object:
    """Return what a kernel is compiled for, of one of its arguments."""
    if parameter.is_constexpr:
        return value
    if isinstance(value, torch.Tensor):
        return value.dtype, not parameter.do_not_specialize_on_alignment and value.data_ptr() % 16 == 0
    if isinstance(value, int) and not isinstance(value, bool):
        wide = not -(2**31) <= value < 2**31
        return wide if parameter.do_not_specialize else (wide, value == 1, value % 16 == 0)
    return type(value)


def kind_of_launch(kernel: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Launch:
    values = dict(zip((each.name for each in kernel.params), arguments, strict=False)) | named
    return kernel.fn.__name__, tuple(kind_of(each, values[each.name]) for each in kernel.params)


def launches(module: ModuleType, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> list[list[Launch]]:
    """Return what is launched in a call, for inputs of many seeds; nothing is run."""
    seen: list[Launch] = []

    def record(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        seen.append(kind_of_launch(kernel, arguments, named))

    monkeypatch.setattr(triton.JITFunction, "run", record)
    oracle = Oracle(problem, "small", "default", "bf16", torch.device("cpu"))
    model = module.ModelNew(*oracle.init_inputs).bfloat16()
    calls = []
    for seed in SEEDS:
        with torch.no_grad():
            model(*oracle.draw_inputs(seed))
        calls.append(list(seen))
        seen.clear()
    return calls


def test_the_same_kernels_serve_all_inputs(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = launches(imported(solution("triton", problem).source, tmp_path), problem, monkeypatch)
    assert calls[0]
    assert [call for call in calls if call != calls[0]] == []
