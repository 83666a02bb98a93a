"""The Triton solutions are right in Triton's interpreter, without a GPU, on the default case and on awkward ones.

On a GPU `dlrm-bench eval solution:triton` judges them on every case at full size.
"""

from __future__ import annotations

import re
from contextlib import closing

import pytest
import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.submissions import Submission, solution

pytest.importorskip("triton")
# Without the default one, which comes with every probe and so with some sixty calls, slow in the interpreter.
AWKWARD = ("all_empty", "half_empty", "odd_dim", "odd_dims", "odd_sizes", "one_feature", "one_key", "batch_one")
CPU = torch.device("cpu")
STREAMED = {"FEWEST_STREAMED": 0, "SHARE": 32, "LARGEST_SHARE": 32}
"""Constants under which every problem is streamed, in shares so small that there are several."""


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def reasons_of(entry: Submission, cases: tuple[str, ...] | None, precision: str) -> list[str]:
    settings = Settings(CPU, "small", precision, effort=None, cases=cases)  # type: ignore[arg-type]
    with closing(Evaluator(settings, spares=0)) as evaluator:
        return [reason.message for reason in evaluator.evaluate(entry).verdict.reasons]


def awkward_cases(problem: Problem) -> tuple[str, ...]:
    return tuple(case for case in problem.cases if case in AWKWARD)


def test_it_is_right_on_awkward_cases(problem: Problem) -> None:
    assert awkward_cases(problem)
    assert reasons_of(solution("triton", problem), awkward_cases(problem), "fp32") == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_small_problem_is_streamed_as_rightly_as_a_large_one(
    problems: ProblemSet, number: int, precision: str
) -> None:
    # Small sizes are done in tiles, and so the kernel for large ones is never seen at them.
    problem = problems.find(number)
    whole = solution("triton", problem)
    source, changed = re.subn(
        rf"^({'|'.join(STREAMED)}) = .*$", lambda each: f"{each[1]} = {STREAMED[each[1]]}", whole.source, flags=re.M
    )
    assert changed
    assert reasons_of(Submission("streamed", problem, source), awkward_cases(problem), precision) == []


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_it_is_right_on_every_case(problem: Problem, precision: str) -> None:
    assert reasons_of(solution("triton", problem), None, precision) == []


def test_kernelbenchs_static_checker_has_nothing_to_refuse(problem: Problem) -> None:
    # It looks for these words anywhere but in comments, docstrings included.
    assert not re.search(r"\bpass\b|\btry\s*:|\bexcept\b", solution("triton", problem).source)
