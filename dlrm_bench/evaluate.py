"""The main job: a submission and a problem in, a result out.

submission -> sandbox <-> judge -> clock -> Result
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
import torch

from dlrm_bench.correctness.judge import judge
from dlrm_bench.environment import describe
from dlrm_bench.errors import UnfitReferenceError
from dlrm_bench.lineup import Entrance, Lineup
from dlrm_bench.problems import Problem
from dlrm_bench.records import SCHEMA, Effort, Measurement, Reason, Result, Verdict, failure, status_of
from dlrm_bench.sandbox.child import Child, ChildPool, SubmissionFailedError
from dlrm_bench.sandbox.headers import HeaderStore
from dlrm_bench.sandbox.limits import is_out_of_memory
from dlrm_bench.settings import Settings
from dlrm_bench.submissions import Submission
from dlrm_bench.timing.roofline import Ceilings, measure_ceilings

__all__ = ["Evaluator", "Settings", "evaluate"]


class Evaluator:
    """Evaluates submissions one after another on one device.

    What submissions for the same problem share is kept between them, until other problems are prepared: the baselines,
    compiled and waiting in their children, and the reference. Call `close` at the end.
    """

    def __init__(self, settings: Settings, spares: int = 2) -> None:
        if settings.device.type == "cuda":
            # Events and streams are the current device's.
            torch.cuda.set_device(settings.device.index or 0)
        self._settings = settings
        self._pool = ChildPool(settings.device, settings.limits, spares)
        self._headers = HeaderStore()
        self._lineups: dict[str, Lineup] = {}
        self._environment = describe(settings.device)

    def prepare(self, problems: Sequence[Problem]) -> None:
        """Have the baselines of these problems compile, all at the same time, and let go of those of others."""
        wanted = {problem.hash: problem for problem in problems}
        for done in self._lineups.keys() - wanted.keys():
            self._lineups.pop(done).close()
        for name, problem in wanted.items():
            if name in self._lineups:
                continue
            try:
                self._lineups[name] = Lineup(problem, self._settings, self._pool, self._headers)
            except UnfitReferenceError:
                continue  # the judge says so
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or len(wanted) == 1:
                    raise
                break  # what is left is prepared alone, when its turn comes

    def evaluate(self, submission: Submission) -> Result:
        """Judge a submission and, if it is correct, time it; its baselines compile while it is judged.

        If there is no room for it, or for a baseline, beside the baselines of other problems, these are let go of.
        """
        crowded, verdict, measurement = len(self._lineups) > 1, None, None
        child = self._pool.take()
        try:
            verdict, measurement = self._judge_and_time(child, submission)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        finally:
            child.close()
        if verdict is None or (crowded and self._ran_out(verdict, measurement)):
            self.prepare([])
            if crowded:
                return self.evaluate(submission)
        verdict = verdict or _no_room(submission.problem, self._settings)
        return self._result(submission, verdict, measurement, child.protections)

    def close(self) -> None:
        """End all children."""
        self._pool.close()
        self.prepare([])
        self._headers.close()

    def _judge_and_time(self, child: Child, submission: Submission) -> tuple[Verdict, Measurement | None]:
        if self._settings.effort is None:
            return self._judge(child, submission), None
        lineup = self._lineup_of(submission.problem)
        if lineup is None:
            verdict = self._judge(child, submission)
            unfit = f"{submission.problem.name} cannot be timed: its reference is unfit for some inputs"
            reason = failure("unsupported", unfit, self._settings.timed_case) if verdict.correct else None
            return _unless(reason, verdict), None
        # It is timed in fresh children: one that has been judged may have compiled other kernels than it would have.
        with contextlib.closing(lineup.entrance(submission)) as entrance:
            verdict = self._judge(child, submission, entrance.begin)
            child.close()
            if not verdict.correct:
                return verdict, None
            return self._time(lineup, entrance, verdict, self._settings.effort)

    def _lineup_of(self, problem: Problem) -> Lineup | None:
        if problem.hash not in self._lineups:
            self.prepare([problem])
        return self._lineups.get(problem.hash)

    def _judge(self, child: Child, submission: Submission, likely: Callable[[], None] = lambda: None) -> Verdict:
        try:
            child.load(submission.source)
        except SubmissionFailedError as error:
            return Verdict(error.status, False, [failure(error.status, error.message)], [], 0.0)
        settings = self._settings
        verdict = judge(
            child,
            submission.problem,
            size=settings.size,
            precision=settings.precision,
            cases=settings.cases,
            likely=likely,
        )
        if settings.device.type == "cuda":
            # What the judge needed, torch would keep from the children.
            torch.cuda.empty_cache()
        return verdict

    def _ran_out(self, verdict: Verdict, measurement: Measurement | None) -> bool:
        """Return whether a child found too little memory on a GPU, which all share; on a CPU each has its own share."""
        comparisons = measurement.comparisons if measurement is not None else []
        statuses = [verdict.status, *(each.status for each in comparisons)]
        return self._settings.device.type == "cuda" and "out_of_memory" in statuses

    def _time(
        self, lineup: Lineup, entrance: Entrance, verdict: Verdict, effort: Effort
    ) -> tuple[Verdict, Measurement | None]:
        contestants = entrance.contestants()
        for each in self._lineups.values():
            each.wait()
        self._pool.settle()
        reason, timed = lineup.time(contestants, effort, self._ceilings)
        return _unless(reason, verdict), timed

    @cached_property
    def _ceilings(self) -> Ceilings | None:
        return measure_ceilings(self._settings.device) if self._settings.device.type == "cuda" else None

    def _result(
        self, submission: Submission, verdict: Verdict, measurement: Measurement | None, protections: list[str]
    ) -> Result:
        return Result(
            schema=SCHEMA,
            problem=submission.problem.name,
            problem_id=submission.problem.id,
            problem_hash=submission.problem.hash,
            submission=submission.label,
            submission_hash=submission.hash,
            size=self._settings.size,
            precision=self._settings.precision,
            status=verdict.status,
            correct=verdict.correct,
            verdict=verdict,
            measurement=measurement,
            protections=protections,
            environment=self._environment,
            time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )


def _no_room(problem: Problem, settings: Settings) -> Verdict:
    message = (
        f"{problem.name}'s reference and inputs do not fit into what {settings.device} has left beside the children; "
        "free some memory, prepare fewer problems ahead, or take --size small"
    )
    return Verdict("unsupported", False, [failure("unsupported", message)], [], 0.0)


def _unless(reason: Reason | None, verdict: Verdict) -> Verdict:
    if reason is None:
        return verdict
    return msgspec.structs.replace(verdict, status=status_of(reason), correct=False, reasons=[reason])


def evaluate(submission: Submission, settings: Settings) -> Result:
    """Evaluate one submission."""
    evaluator = Evaluator(settings, spares=0)
    try:
        return evaluator.evaluate(submission)
    finally:
        evaluator.close()
