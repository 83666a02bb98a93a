"""Judge one submission: fresh secret seeds, every case, and the oracle's word on each output."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Any

import torch

from dlrm_bench.correctness.compare import compare, wrong_facts
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import CaseMetrics, Precision, Reason, Size, Verdict, failure, status_of
from dlrm_bench.sandbox.arena import Arena, room_for
from dlrm_bench.sandbox.child import Child, SubmissionFailedError
from dlrm_bench.sandbox.messages import Argument, Called, TensorRef

DEFAULT_TRIALS = 3
SEED_BITS = 48


def fresh_seed() -> int:
    """Return a seed that nobody can foresee."""
    return secrets.randbits(SEED_BITS)


def judge(
    child: Child,
    problem: Problem,
    *,
    size: Size,
    precision: Precision,
    cases: Iterable[str] | None = None,
) -> Verdict:
    """Judge the submission that a child has loaded.

    Args:
        child: a child whose submission is imported.
        problem: what it claims to solve.
        size: which size of the problem.
        precision: dtype of weights and floating inputs.
        cases: which cases; all of them if left out.

    Returns:
        The verdict. Whatever the submission does ends up in it; it raises nothing of the submission's.
    """
    start = time.monotonic()
    bench = _Bench(child, problem, size, precision)
    failed: Reason | None = None
    current = None
    try:
        for current in cases or problem.cases:
            bench.run_case(current)
    except SubmissionFailedError as error:
        where = f" on case {current}" if current else ""
        failed = failure(error.status, f"{error.message}{where}", current)
    reasons = bench.reasons + ([failed] if failed is not None else [])
    status = status_of(failed or reasons[0]) if reasons else "correct"
    return Verdict(status, not reasons, reasons, bench.metrics, time.monotonic() - start)


class _Bench:
    """One child on the judge's bench: runs trials and collects what is wrong."""

    def __init__(self, child: Child, problem: Problem, size: Size, precision: Precision) -> None:
        self._child = child
        self._problem = problem
        self._size: Size = size
        self._precision: Precision = precision
        self.reasons: list[Reason] = []
        self.metrics: list[CaseMetrics] = []

    def run_case(self, case: str) -> None:
        """Build the model for a case and try it on fresh inputs; on the default one, on several and the first again."""
        oracle = Oracle(self._problem, self._size, case, self._precision, self._child.device)
        weights = fresh_seed()
        oracle.rebuild(weights)
        self._child.build(oracle.init_inputs, weights, self._precision)
        trials = [oracle.trial(fresh_seed()) for _ in range(DEFAULT_TRIALS if case == DEFAULT_CASE else 1)]
        passed = [self._passes(trial, case) for trial in trials]
        if len(trials) > 1 and passed[0] and not self._passes(trials[0], case):
            self.reasons[-1:] = [
                Reason(
                    "not_repeatable", f"right at first, but wrong when asked again: {self.reasons[-1].message}", case
                )
            ]

    def _passes(self, trial: Trial, case: str) -> bool:
        found = self._try(trial, case)
        self.reasons.extend(found)
        return not found

    def _try(self, trial: Trial, case: str) -> list[Reason]:
        arena = self._child.arena(room_for_trial(trial))
        arguments = place(arena, trial.inputs)
        called = self._child.call(arguments)
        reasons = wrong_facts(called, trial, case, self._child.device)
        if reasons:
            return reasons
        output, changed = self._fetch(arena, called, arguments, trial)
        reasons, metrics = compare(output, trial, case)
        self.metrics.append(metrics)
        return reasons + changed_inputs(changed, case)

    def _fetch(
        self, arena: Arena, called: Called, arguments: list[Argument], trial: Trial
    ) -> tuple[torch.Tensor, list[int]]:
        target = arena.reserve(trial.dtype, called.shape)
        self._child.fetch(0, target)
        changed = [
            i
            for i, (ref, given) in enumerate(zip(arguments, trial.inputs, strict=True))
            if isinstance(ref, TensorRef) and not _same_bits(arena.view(ref), given)
        ]
        return arena.view(target).clone(), changed


def place(arena: Arena, inputs: list[Any]) -> list[Argument]:
    """Copy a set of inputs into an arena and return what to tell the child."""
    return [arena.place(each) if isinstance(each, torch.Tensor) else each for each in inputs]


def room_for_trial(trial: Trial) -> int:
    """Return the bytes that a trial's inputs and output take in an arena."""
    inputs = sum(room_for(each.dtype, each.shape) for each in trial.inputs if isinstance(each, torch.Tensor))
    return inputs + room_for(trial.dtype, trial.shape)


def changed_inputs(changed: list[int], case: str) -> list[Reason]:
    """Return the reason, if a submission wrote into what it was given."""
    if not changed:
        return []
    names = ", ".join(str(i) for i in changed)
    return [Reason("input_changed", f"forward wrote into its input {names} on case {case}", case)]


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.equal(*(each.contiguous().flatten().view(torch.uint8) for each in (first, second)))
