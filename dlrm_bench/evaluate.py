"""The main job: a submission and a problem in, a result out.

submission -> sandbox <-> judge -> clock -> Result
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import torch

from dlrm_bench.correctness.judge import judge
from dlrm_bench.environment import describe
from dlrm_bench.problems import Problem
from dlrm_bench.records import Effort, Measurement, Precision, Result, Size, Verdict, failure, status_of
from dlrm_bench.sandbox.child import Child, ChildPool, SubmissionFailedError
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import Submission, baseline
from dlrm_bench.timing.clock import Contestant, Race
from dlrm_bench.timing.roofline import measure_ceilings

SCHEMA = 1


@dataclass(frozen=True)
class Settings:
    """How to evaluate.

    Attributes:
        device: where.
        size: which size of the problems.
        precision: dtype of weights and floating inputs.
        effort: how long to time a correct submission; `None` to judge only.
        baselines: what to time it beside.
        cases: which cases to judge; all if `None`.
        limits: what a submission may use.
    """

    device: torch.device
    size: Size
    precision: Precision
    effort: Effort | None = "standard"
    baselines: tuple[str, ...] = ("eager", "inductor", "fbgemm")
    cases: tuple[str, ...] | None = None
    limits: Limits = field(default_factory=Limits)


class Evaluator:
    """Evaluates submissions one after another on one device.

    What submissions for the same problem share is kept between them: the baselines, compiled and waiting in their
    children, and the inputs with their right answers. Call `close` at the end.
    """

    def __init__(self, settings: Settings, spares: int = 1) -> None:
        self._settings = settings
        self._pool = ChildPool(settings.device, settings.limits, spares)
        self._lineup: Lineup | None = None
        self._environment = describe(settings.device)

    def evaluate(self, submission: Submission) -> Result:
        """Judge a submission and, if it is correct, time it."""
        child = self._pool.take()
        try:
            verdict = self._judge(child, submission)
            measurement = None
            if verdict.correct and self._settings.effort is not None:
                verdict, measurement = self._time(child, submission, verdict)
        finally:
            child.close()
        return self._result(submission, verdict, measurement)

    def close(self) -> None:
        """End all children."""
        self._pool.close()
        if self._lineup is not None:
            self._lineup.close()

    def _judge(self, child: Child, submission: Submission) -> Verdict:
        try:
            child.load(submission.source)
        except SubmissionFailedError as error:
            return Verdict(error.status, False, [failure(error.status, error.message)], [], 0.0)
        settings = self._settings
        return judge(child, submission.problem, size=settings.size, precision=settings.precision, cases=settings.cases)

    def _time(self, child: Child, submission: Submission, verdict: Verdict) -> tuple[Verdict, Measurement | None]:
        assert self._settings.effort is not None
        contestant = Contestant(submission.label, child)
        lineup = self._lineup_for(submission.problem)
        measurement = lineup.time(contestant, self._settings.effort, self._ceilings)
        if contestant.reason is None:
            return verdict, measurement
        status = status_of(contestant.reason)
        failed = msgspec.structs.replace(verdict, status=status, correct=False, reasons=[contestant.reason])
        return failed, None

    def _lineup_for(self, problem: Problem) -> Lineup:
        if self._lineup is None or self._lineup.problem is not problem:
            if self._lineup is not None:
                self._lineup.close()
            self._lineup = Lineup(problem, self._settings, self._pool)
        return self._lineup

    @cached_property
    def _ceilings(self) -> tuple[float, float] | None:
        return measure_ceilings(self._settings.device) if self._settings.device.type == "cuda" else None

    def _result(self, submission: Submission, verdict: Verdict, measurement: Measurement | None) -> Result:
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
            environment=self._environment,
            time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )


def evaluate(submission: Submission, settings: Settings) -> Result:
    """Evaluate one submission."""
    evaluator = Evaluator(settings, spares=0)
    try:
        return evaluator.evaluate(submission)
    finally:
        evaluator.close()


class Lineup:
    """One problem's baselines, compiled, judged and ready to be timed beside any submission."""

    def __init__(self, problem: Problem, settings: Settings, pool: ChildPool) -> None:
        self.problem = problem
        self._race = Race(problem, settings.size, settings.precision, settings.device)
        self._baselines = [self._enter(baseline(name, problem), pool) for name in settings.baselines]

    def time(self, submission: Contestant, effort: Effort, ceilings: tuple[float, float] | None) -> Measurement | None:
        """Time a submission beside the baselines; `None`, and its `reason` set, if it fails on the way."""
        self._race.enter(submission)
        contestants = [replace(each, block_us=[]) for each, _ in self._baselines]
        calls = self._race.run([submission, *contestants], effort)
        if submission.reason is not None:
            return None
        abouts = [about for _, about in self._baselines]
        return self._race.measurement(submission, list(zip(contestants, abouts, strict=True)), effort, calls, ceilings)

    def close(self) -> None:
        """End the baselines' children."""
        for each, _ in self._baselines:
            each.child.close()
        del self._race
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _enter(self, entry: Submission, pool: ChildPool) -> tuple[Contestant, str]:
        contestant = Contestant(entry.label.removeprefix("baseline:"), pool.take())
        try:
            contestant.child.load(entry.source)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)
        else:
            self._race.enter(contestant)
        return contestant, entry.about
