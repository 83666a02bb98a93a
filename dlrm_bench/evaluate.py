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
from dlrm_bench.timing.clock import measurement, refuse
from dlrm_bench.timing.plans import PLANS
from dlrm_bench.timing.race import Contestant, Race
from dlrm_bench.timing.roofline import Ceilings, measure_ceilings

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
    children, and the reference. Call `close` at the end.
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
                verdict, measurement = self._time(child, submission, verdict, self._settings.effort)
        finally:
            child.close()
        return self._result(submission, verdict, measurement, child.protections)

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

    def _time(
        self, child: Child, submission: Submission, verdict: Verdict, effort: Effort
    ) -> tuple[Verdict, Measurement | None]:
        contestant = Contestant(submission.label, child)
        timed = self._lineup_for(submission.problem).time(contestant, submission, effort, self._ceilings)
        if contestant.reason is None:
            return verdict, timed
        status = status_of(contestant.reason)
        return msgspec.structs.replace(verdict, status=status, correct=False, reasons=[contestant.reason]), None

    def _lineup_for(self, problem: Problem) -> Lineup:
        if self._lineup is None or self._lineup.problem is not problem:
            if self._lineup is not None:
                self._lineup.close()
            self._lineup = Lineup(problem, self._settings, self._pool)
        return self._lineup

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
        self._pool = pool
        self._race = Race(problem, settings.size, settings.precision, settings.device)
        self._entries = [baseline(name, problem) for name in settings.baselines]
        self._baselines = [self._enter(entry) for entry in self._entries]

    def time(
        self, submission: Contestant, entry: Submission, effort: Effort, ceilings: Ceilings | None
    ) -> Measurement | None:
        """Time a submission beside the baselines; `None`, and its `reason` set, if its time is worth nothing."""
        self._race.enter(submission)
        if submission.reason is not None:
            return None
        control = self._enter(entry) if PLANS[effort].control else None
        baselines = [replace(each, block_us=[]) for each in self._baselines]
        try:
            calls = self._race.run([submission, *baselines, *([control] if control else [])], effort)
        finally:
            if control is not None:
                control.child.close()
        submission.reason = submission.reason or refuse(submission, self._race, ceilings)
        if submission.reason is not None:
            return None
        named = [(each, about.about) for each, about in zip(baselines, self._entries, strict=True)]
        return measurement(submission, control, named, self._race, effort, calls, ceilings)

    def close(self) -> None:
        """End the baselines' children."""
        for each in self._baselines:
            each.child.close()
        del self._race
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _enter(self, entry: Submission) -> Contestant:
        contestant = Contestant(entry.label.removeprefix("baseline:"), self._pool.take())
        try:
            contestant.child.load(entry.source)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)
        else:
            self._race.enter(contestant)
        return contestant
