"""The Triton solutions are right in Triton's interpreter, without a GPU, on the default case and on awkward ones.

On a GPU `dlrm-bench eval solution:triton` judges them on every case at full size.
"""

from __future__ import annotations

import re
from contextlib import closing

import pytest
import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem
from dlrm_bench.submissions import solution

pytest.importorskip("triton")
# Without the default one, which comes with every probe and so with some sixty calls, slow in the interpreter.
AWKWARD = ("all_empty", "half_empty", "odd_dim", "odd_dims", "odd_sizes", "one_feature", "one_key", "batch_one")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def reasons_of(problem: Problem, cases: tuple[str, ...] | None, precision: str) -> list[str]:
    settings = Settings(CPU, "small", precision, effort=None, cases=cases)  # type: ignore[arg-type]
    with closing(Evaluator(settings, spares=0)) as evaluator:
        return [reason.message for reason in evaluator.evaluate(solution("triton", problem)).verdict.reasons]


def test_kernelbenchs_static_checker_has_nothing_to_refuse(problem: Problem) -> None:
    # It looks for these words anywhere but in comments, docstrings included.
    assert not re.search(r"\bpass\b|\btry\s*:|\bexcept\b", solution("triton", problem).source)


def test_it_is_right_on_awkward_cases(problem: Problem) -> None:
    cases = tuple(case for case in problem.cases if case in AWKWARD)
    assert cases
    assert reasons_of(problem, cases, "fp32") == []


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_it_is_right_on_every_case(problem: Problem, precision: str) -> None:
    assert reasons_of(problem, None, precision) == []
