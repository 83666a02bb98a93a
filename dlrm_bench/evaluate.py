"""The main job: a submission and a problem in, a result out.

submission -> sandbox <-> judge -> clock -> Result
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import torch

from dlrm_bench.correctness.bench import Bench
from dlrm_bench.correctness.judge import judge
from dlrm_bench.environment import describe
from dlrm_bench.errors import UnfitReferenceError
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Effort, Measurement, Precision, Reason, Result, Size, Verdict, failure, status_of
from dlrm_bench.sandbox.child import Child, ChildPool, SubmissionFailedError
from dlrm_bench.sandbox.headers import HeaderStore
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import Submission, baseline
from dlrm_bench.timing.clock import measurement, refuse
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.race import Race
from dlrm_bench.timing.roofline import Ceilings, measure_ceilings
from dlrm_bench.timing.telemetry import open_sensors

SCHEMA = 2


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
        timed_case: which case to time.
        cold: whether to flush a GPU's L2 before each timed call.
        limits: what a submission may use.
    """

    device: torch.device
    size: Size
    precision: Precision
    effort: Effort | None = "standard"
    baselines: tuple[str, ...] = ("eager", "inductor", "fbgemm")
    cases: tuple[str, ...] | None = None
    timed_case: str = DEFAULT_CASE
    cold: bool = True
    limits: Limits = field(default_factory=Limits)


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
        for name in wanted.keys() - self._lineups.keys():
            # If the reference is unfit, the judge says so.
            with contextlib.suppress(UnfitReferenceError):
                self._lineups[name] = Lineup(wanted[name], self._settings, self._pool, self._headers)

    def evaluate(self, submission: Submission) -> Result:
        """Judge a submission and, if it is correct, time it; its baselines compile while it is judged."""
        if self._settings.effort is not None and submission.problem.hash not in self._lineups:
            self.prepare([submission.problem])
        child = self._pool.take()
        try:
            verdict = self._judge(child, submission)
        finally:
            child.close()
        measurement = None
        if verdict.correct and self._settings.effort is not None:
            verdict, measurement = self._time(submission, verdict, self._settings.effort)
        return self._result(submission, verdict, measurement, child.protections)

    def close(self) -> None:
        """End all children."""
        self._pool.close()
        self.prepare([])
        self._headers.close()

    def _judge(self, child: Child, submission: Submission) -> Verdict:
        try:
            child.load(submission.source)
        except SubmissionFailedError as error:
            return Verdict(error.status, False, [failure(error.status, error.message)], [], 0.0)
        settings = self._settings
        return judge(child, submission.problem, size=settings.size, precision=settings.precision, cases=settings.cases)

    def _time(self, submission: Submission, verdict: Verdict, effort: Effort) -> tuple[Verdict, Measurement | None]:
        """Time it in fresh children: one that has been judged may have compiled other kernels than it would have."""
        lineup = self._lineups.get(submission.problem.hash)
        if lineup is None:
            unfit = f"{submission.problem.name} cannot be timed: its reference is unfit for some inputs"
            return _unless(failure("unsupported", unfit, self._settings.timed_case), verdict), None
        with lineup.entered(submission) as contestants:
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


class Lineup:
    """One problem's baselines, compiled, judged and ready to be timed beside any submission.

    They are made ready side by side, in threads that only wait for children and compare tensors: torch's random state
    is the process's, so that inputs are drawn in the main thread alone.
    """

    def __init__(self, problem: Problem, settings: Settings, pool: ChildPool, headers: HeaderStore) -> None:
        self.problem = problem
        self._pool = pool
        self._headers = headers
        self._race = Race(
            problem, settings.size, settings.timed_case, settings.precision, settings.device, settings.cold
        )
        self._entries = [baseline(name, problem) for name in settings.baselines]
        self._threads = ThreadPoolExecutor(len(self._entries) + 2)
        self._baselines = [self._contestant(entry) for entry in self._entries]
        for each in self._baselines:
            headers.lend(each.bench.child.workspace)
        self._entering = [
            self._threads.submit(self._enter, contestant, entry)
            for contestant, entry in zip(self._baselines, self._entries, strict=True)
        ]

    def wait(self) -> None:
        """Wait until the baselines are ready."""
        for entering, each in zip(self._entering, self._baselines, strict=True):
            entering.result()
            if each.reason is None:
                self._headers.keep(each.bench.child.workspace)

    @contextlib.contextmanager
    def entered(self, entry: Submission) -> Iterator[tuple[Contestant, Contestant]]:
        """Load a submission into two children, judged and warmed up: itself, and its control."""
        contestants = self._contestant(entry), self._contestant(entry)
        try:
            for _ in self._threads.map(self._enter, contestants, (entry, entry)):
                pass
            yield contestants
        finally:
            for each in contestants:
                each.bench.child.close()

    def time(
        self, contestants: tuple[Contestant, Contestant], effort: Effort, ceilings: Ceilings | None
    ) -> tuple[Reason | None, Measurement | None]:
        """Time a submission beside its control and the baselines, when nothing else runs.

        Returns:
            Why its time is worth nothing, or what the clock says.
        """
        submission, control = contestants
        reason = submission.reason or control.reason
        if reason is not None:
            return reason, None
        baselines = [replace(each) for each in self._baselines]
        start = time.monotonic()
        with open_sensors(self._race.device) as sensors:
            calls = self._race.run([submission, control, *baselines], effort, sensors)
            telemetry = sensors.telemetry() if sensors is not None else None
        reason = submission.reason or control.reason or refuse(submission, self._race, calls, ceilings)
        if reason is not None:
            return reason, None
        seconds = time.monotonic() - start
        second = self._race.second_clock(submission)
        named = [(each, about.about) for each, about in zip(baselines, self._entries, strict=True)]
        timed = measurement(submission, control, named, self._race, effort, calls, ceilings)
        return None, msgspec.structs.replace(timed, second_clock=second, telemetry=telemetry, seconds=seconds)

    def close(self) -> None:
        """End the baselines' children."""
        for each in self._baselines:
            each.bench.child.kill()
        self._threads.shutdown()
        for each in self._baselines:
            each.bench.child.close()
        del self._race
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _contestant(self, entry: Submission) -> Contestant:
        return Contestant(entry.label.removeprefix("baseline:"), Bench(self._pool.take(), self._race.case))

    def _enter(self, contestant: Contestant, entry: Submission) -> None:
        try:
            contestant.bench.child.load(entry.source)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)
        else:
            self._race.enter(contestant)
