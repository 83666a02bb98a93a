"""A problem's baselines, waiting to be timed beside submissions."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import msgspec
import torch

from dlrm_bench.correctness.bench import Bench
from dlrm_bench.problems import Problem
from dlrm_bench.records import Effort, Measurement, Reason, failure
from dlrm_bench.sandbox.child import ChildPool, SubmissionFailedError
from dlrm_bench.sandbox.headers import HeaderStore
from dlrm_bench.settings import Settings
from dlrm_bench.submissions import Submission, baseline
from dlrm_bench.timing.clock import measurement, refuse
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.race import Race
from dlrm_bench.timing.roofline import Ceilings
from dlrm_bench.timing.telemetry import open_sensors

MOST_RACES = 3
"""How often a submission is timed at most while its time is refused: a host that was busy need not be so again, and
work that is hidden is hidden each time."""


class Entrance:
    """A submission's way to the clock: two children of its own, itself and its control, judged and warmed up.

    They get ready in threads, beside whatever else goes on, from `begin` on.
    """

    def __init__(self, enter: Callable[[], tuple[Contestant, Future[None]]]) -> None:
        self._enter = enter
        self._entered: list[tuple[Contestant, Future[None]]] = []

    def begin(self) -> None:
        """Have the two children get ready."""
        for _ in range(2):
            self._entered.append(self._enter())

    def contestants(self) -> tuple[Contestant, Contestant]:
        """Return the two, ready; what went wrong is their `reason`."""
        if not self._entered:
            self.begin()
        for _, ready in self._entered:
            ready.result()
        (submission, _), (control, _) = self._entered
        return submission, control

    def close(self) -> None:
        """End the children."""
        for contestant, _ in self._entered:
            contestant.bench.child.kill()
        wait([ready for _, ready in self._entered])
        for contestant, _ in self._entered:
            contestant.bench.child.close()


class Lineup:
    """One problem's baselines, compiled, judged and ready to be timed beside any submission.

    They are made ready side by side, in threads that only wait for children and compare tensors: torch's random state
    is the process's, so that inputs are drawn in the main thread alone.
    """

    def __init__(self, problem: Problem, settings: Settings, pool: ChildPool, headers: HeaderStore) -> None:
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

    def entrance(self, entry: Submission) -> Entrance:
        """Return the way of a submission to the clock."""

        def enter() -> tuple[Contestant, Future[None]]:
            contestant = self._contestant(entry)
            return contestant, self._threads.submit(self._enter, contestant, entry)

        return Entrance(enter)

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
        for _ in range(MOST_RACES):
            with open_sensors(self._race.device) as sensors:
                calls = self._race.run([submission, control, *baselines], effort, sensors)
                telemetry = sensors.telemetry() if sensors is not None else None
            reason = submission.reason or control.reason
            refused = None if reason else refuse(submission, baselines, self._race, calls, ceilings)
            if refused is None:
                break
        if reason or refused:
            return reason or refused, None
        seconds = time.monotonic() - start
        second = self._race.second_clock(submission, baselines)
        if submission.reason is not None:
            return submission.reason, None
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
