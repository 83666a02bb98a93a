"""One submission over variants of one problem: how a speedup depends on the index data and on the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from dlrm_bench.errors import UsageError
from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem
from dlrm_bench.records import Case, Constant, ProblemCard, SweepPoint
from dlrm_bench.submissions import Submission


@dataclass(frozen=True)
class Sweep:
    """A module constant, and what it is set to.

    Attributes:
        constant: its name.
        values: what it is set to, from what it is.
    """

    constant: str
    values: Callable[[float], list[Constant]]


SWEEPS = {
    # At 0 every row is as likely as any other; beyond 1 a handful takes most lookups.
    "skew": Sweep("ZIPF_EXPONENT", lambda _: [0.0, 0.5, 0.8, 0.95, 1.05, 1.2, 1.5]),
    "batch": Sweep("BATCH", lambda batch: [max(1, int(batch * factor)) for factor in (1 / 64, 1 / 16, 1 / 4, 1, 2)]),
}


def run_sweep(
    name: str, problem: Problem, submission: Callable[[Problem], Submission], settings: Settings
) -> Iterator[SweepPoint]:
    """Judge and time a submission on every variant, and yield each as it ends.

    Args:
        name: of the sweep.
        problem: which problem.
        submission: what to time, for a variant of the problem.
        settings: how; the cases are the sweep's own.

    Raises:
        UsageError: the problem has no such constant, or no card.
    """
    sweep = SWEEPS[name]
    if problem.card is None or sweep.constant not in problem.defaults:
        raise UsageError(f"{problem.name} has no constant {sweep.constant} to sweep over")
    values = sweep.values(float(problem.constants(settings.size)[sweep.constant]))  # type: ignore[arg-type]
    variant = replace(problem, card=_with_cases(problem.card, name, sweep.constant, values))
    for number, value in enumerate(values):
        case = _case_name(name, number)
        evaluator = Evaluator(replace(settings, cases=(case,), timed_case=case))
        try:
            yield SweepPoint(sweep.constant, value, evaluator.evaluate(submission(variant)))
        finally:
            evaluator.close()


def _with_cases(card: ProblemCard, name: str, constant: str, values: list[Constant]) -> ProblemCard:
    cases = [
        Case(_case_name(name, number), f"{constant} = {value}", {constant: value})
        for number, value in enumerate(values)
    ]
    return msgspec.structs.replace(card, cases=[*card.cases, *cases])


def _case_name(name: str, number: int) -> str:
    return f"{name}_{number}"
