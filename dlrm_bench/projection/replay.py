"""Run the launches of one step again with other durations.

A kernel starts when the host has launched it and the kernel before it on its stream has ended; one that had waited for
a kernel of another stream waits for that again. The host goes on at its own pace, and stops where it waits for the GPU.
With unchanged durations this gives back every recorded start. Where one call takes the place of several launches, the
host spares the time between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlrm_bench.projection.matched import Floats
from dlrm_bench.records import Identity, Launches, Trace
from dlrm_bench.traces.summary import wall_us

TOLERANCE = 0.02
USUAL_LATENCY_US = 5.0
USUAL_GAP_US = 1.0
NEAR_US = 20.0
HOST = -1


@dataclass(frozen=True)
class _Start:
    """What a kernel had waited for.

    Attributes:
        before: the kernel before it on its stream, or none.
        cause: what was last: a kernel, or `HOST`.
        delay: from then to the start.
        latency: at least from the launch to the start.
        gap: at least from the end of `before` to the start.
    """

    before: int | None
    cause: int
    delay: float
    latency: float
    gap: float


@dataclass(frozen=True)
class _Wait:
    """A call in which the host waits for the GPU.

    Attributes:
        after: how many launches came before it.
        begin: when it began.
        end: when it returned.
        awaited: the last kernel on each stream that it waited for.
        own: how long it takes at least.
        delay: from the end of the last kernel to its return.
    """

    after: int
    begin: float
    end: float
    awaited: list[int]
    own: float
    delay: float


class Replay:
    """One step of a trace, ready to be run with other durations."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._host = np.asarray(launches.host_us, np.float64)
        self._start = np.asarray(launches.start_us, np.float64)
        self._duration = np.asarray(launches.duration_us, np.float64)
        self._end = self._start + self._duration
        self._starts = self._read_starts()
        self._waits = [self._read_wait(*each) for each in self._wait_times()]

    def wall(self, scale: Sequence[float] | Floats, calls: Sequence[Sequence[int]] = ()) -> float:
        """Return the step's length in microseconds.

        Args:
            scale: new duration over old, one entry a row of the trace.
            calls: launches, each given by their places in order, that become one: their time is added up, and the host
                needs no time from the first of them to the last.
        """
        durations = self._duration * np.asarray(scale, np.float64)[self._launches.row]
        joined = {launch for call in calls for launch in call[1:]}
        for call in calls:
            durations[call[0]] = durations[list(call)].sum()
        end = np.zeros(self._end.size)
        shift, waits = 0.0, iter(self._waits)
        wait = next(waits)
        for launch, start in enumerate(self._starts):
            while wait.after == launch:
                shift = self._resumed(wait, end, shift) - wait.end
                wait = next(waits)
            if launch in joined:
                shift -= self._host[launch] - self._host[launch - 1]
                end[launch] = end[start.before] if start.before is not None else 0.0
            else:
                end[launch] = self._begin(launch, start, end, shift) + durations[launch]
        while True:
            shift = self._resumed(wait, end, shift) - wait.end
            if wait is self._waits[-1]:
                return float(wait.end + shift)
            wait = next(waits)

    def _begin(self, launch: int, start: _Start, end: Floats, shift: float) -> float:
        host = float(self._host[launch]) + shift
        begin = max(host + start.latency, (host if start.cause == HOST else float(end[start.cause])) + start.delay)
        return begin if start.before is None else max(begin, float(end[start.before]) + start.gap)

    def _resumed(self, wait: _Wait, end: Floats, shift: float) -> float:
        done = float(end[wait.awaited].max(initial=-np.inf))
        return max(wait.begin + shift + wait.own, done + wait.delay)

    def _wait_times(self) -> list[tuple[float, float]]:
        """Return begin and end of every wait, the last of which ends the step.

        What the profiler does after a step's last wait is no part of the step. A step that does not wait for its last
        launch ends with its mark, or with its last kernel if that is later.
        """
        waits = [*zip(self._launches.waits_us, self._launches.waits_end_us, strict=True)]
        last_launch = float(self._host.max(initial=0.0))
        if waits and waits[-1][0] >= last_launch:
            return waits
        begin = max([last_launch, *(end for _, end in waits)])
        return [*waits, (begin, max(begin, self._launches.wall_us, float(self._end.max(initial=0.0))))]

    def _read_starts(self) -> list[_Start]:
        last: dict[int, int] = {}
        found: list[tuple[int | None, int, float]] = []
        for launch, stream in enumerate(self._launches.stream):
            before = last.get(stream)
            found.append((before, *self._cause(launch, before, [each for on, each in last.items() if on != stream])))
            last[stream] = launch
        idle = [self._start[i] - self._host[i] for i, (_, cause, _) in enumerate(found) if cause == HOST]
        queued = [delay for before, cause, delay in found if before is not None and cause == before]
        latency = float(np.quantile(idle, 0.1)) if idle else USUAL_LATENCY_US
        gap = float(np.median(queued)) if queued else USUAL_GAP_US
        return [
            _Start(
                before,
                cause,
                delay,
                min(latency, self._start[i] - self._host[i]),
                min(gap, self._start[i] - self._end[before]) if before is not None else 0.0,
            )
            for i, (before, cause, delay) in enumerate(found)
        ]

    def _cause(self, launch: int, before: int | None, others: Sequence[int]) -> tuple[int, float]:
        """Return what a kernel had waited for, and how long after that it began."""
        start, ready, cause = self._start[launch], self._host[launch], HOST
        if before is not None and self._end[before] > ready:
            ready, cause = self._end[before], before
        for other in others:
            # Another stream's kernel that ended right before this one began is taken to have been waited for.
            if ready < self._end[other] <= start < self._end[other] + NEAR_US and start - ready > NEAR_US:
                ready, cause = self._end[other], other
        return cause, float(start - ready)

    def _read_wait(self, begin: float, end: float) -> _Wait:
        after = int(np.searchsorted(self._host, begin, side="right"))
        ended = np.flatnonzero(self._end[:after] <= end)
        awaited = list({self._launches.stream[launch]: int(launch) for launch in ended}.values())
        done = float(self._end[awaited].max(initial=-np.inf))
        if done <= begin:
            return _Wait(after, begin, end, awaited, end - begin, 0.0)
        return _Wait(after, begin, end, awaited, 0.0, end - done)


def identity(trace: Trace, replay: Replay) -> Identity:
    """Hold the replay of unchanged durations against the step that it should give back."""
    replayed, wall = replay.wall(np.ones(len(trace.rows))), wall_us(trace)
    error = abs(replayed - wall) / wall
    return Identity(replayed, wall, error, error <= TOLERANCE)
