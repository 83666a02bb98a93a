"""Judge one submission: fresh secret seeds, every case, and the oracle's word on each output."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator

from dlrm_bench.correctness.bench import Bench
from dlrm_bench.correctness.oracle import Oracle
from dlrm_bench.correctness.probes import ON_EVERY_CASE, PROBES, renewed, unwritten
from dlrm_bench.correctness.variations import VARIATIONS
from dlrm_bench.errors import UnfitReferenceError
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import CaseMetrics, CaseSeconds, Precision, Reason, Size, Verdict, failure, status_of
from dlrm_bench.sandbox.child import Child, SubmissionFailedError

DEFAULT_TRIALS = 3
LARGE_TRIALS = 2
LARGE_BYTES = 4 << 30
"""Of the oracle's output: what a trial of this size is kept in would be missed elsewhere on the device."""
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
    likely: Callable[[], None] = lambda: None,
) -> Verdict:
    """Judge the submission that a child has loaded.

    Args:
        child: a child whose submission is imported.
        problem: what it claims to solve.
        size: which size of the problem.
        precision: dtype of weights and floating inputs.
        cases: which cases; all of them if left out.
        likely: called when the default case is passed: most submissions that are wrong are wrong there.

    Returns:
        The verdict. Whatever the submission does ends up in it; it raises nothing of the submission's.
    """
    start = time.monotonic()
    reasons: list[Reason] = []
    metrics: list[CaseMetrics] = []
    spent: list[CaseSeconds] = []
    ended: Reason | None = None
    case = DEFAULT_CASE
    try:
        for case in cases or problem.cases:
            oracle = Oracle(problem, size, case, precision, child.device)
            try:
                with _noted(spent, case):
                    _judge_case(Bench(child, case), oracle, precision, reasons, metrics)
                if case == DEFAULT_CASE and not reasons:
                    likely()
            except UnfitReferenceError as error:
                if case in VARIATIONS:
                    continue
                ended = failure("unsupported", f"{problem.name} cannot be judged: {error}, on case {case}", case)
                reasons.append(ended)
                break
    except SubmissionFailedError as error:
        ended = failure(error.status, f"{error.message}, on case {case}", case)
        reasons.append(ended)
    status = status_of(ended or reasons[0]) if reasons else "correct"
    return Verdict(status, not reasons, reasons, metrics, time.monotonic() - start, spent)


@contextlib.contextmanager
def _noted(spent: list[CaseSeconds], case: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        spent.append(CaseSeconds(case, time.monotonic() - start))


def _judge_case(
    bench: Bench, oracle: Oracle, precision: Precision, reasons: list[Reason], metrics: list[CaseMetrics]
) -> None:
    """Try one case on fresh weights and inputs, then probe; the default one on several inputs and with every probe."""
    thorough = bench.case == DEFAULT_CASE
    bench.build(oracle, fresh_seed(), precision)
    trials = [oracle.trial(fresh_seed())]
    if thorough:
        wanted = LARGE_TRIALS if trials[0].yardstick.expected.nbytes > LARGE_BYTES else DEFAULT_TRIALS
        trials += [oracle.trial(fresh_seed()) for _ in range(wanted - 1)]
    for trial in trials:
        outcome = bench.call(trial)
        metrics += [outcome.metrics] if outcome.metrics is not None else []
        if outcome.reasons:
            # What was never written explains every wrong number, so it is said first.
            reasons += [*(unwritten(bench, trials) if thorough else []), *outcome.reasons]
            return
    for probe in PROBES if thorough else ON_EVERY_CASE:
        found = probe(bench, trials)
        reasons += found
        if found:
            return
    if thorough and not oracle.may_cache_weights:
        bench.renew(oracle, fresh_seed(), precision)
        reasons += renewed(bench, oracle.trial(fresh_seed()))
