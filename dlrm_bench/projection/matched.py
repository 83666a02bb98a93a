"""Each kernel of a trace by the result of the problem that stands for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlrm_bench.problems import load_problems
from dlrm_bench.records import Comparison, Match, Measurement, Result, Trace
from dlrm_bench.timing.statistics import LEVEL
from dlrm_bench.traces.policies import StandIn, stand_in
from dlrm_bench.traces.summary import wall_us

Floats = NDArray[np.float64]
BASELINES = {"fbgemm": "fbgemm", "triton": "fbgemm", "inductor": "inductor"}
"""Whose time kernels are held against, by their owner; all others are what eager PyTorch runs."""


@dataclass(frozen=True)
class Group:
    """Rows of a trace that one result stands for.

    Attributes:
        stands: the entry of the table that says so.
        rows: places in the trace's rows.
        us: their time in a step.
        baseline: which of the result's comparisons counts.
        result: of the problem, if there is one.
        comparison: the one that counts, if it has a ratio.
        by_time: whether the workload has the problem's size, so that the submission's own time counts.
        fallback: whether the kernels stay as they are if they would lose.
    """

    stands: StandIn
    rows: list[int]
    us: float
    baseline: str
    result: Result | None
    comparison: Comparison | None
    by_time: bool
    fallback: bool

    @property
    def outcome(self) -> str:
        """The comparison's outcome, or why the kernels are taken as they are."""
        if self.result is None:
            return "no result"
        if not self.result.correct:
            return self.result.status
        if self.comparison is None or self.comparison.outcome is None:
            return f"not compared with {self.baseline}"
        return self.comparison.outcome

    @property
    def measurement(self) -> Measurement | None:
        """What counts of the result, if it is to be used at all."""
        if self.result is None or self.comparison is None or (self.fallback and self.outcome == "loss"):
            return None
        return self.result.measurement

    @property
    def speedup(self) -> float:
        """Old time over new: 1 where nothing is known, or a loss is not taken."""
        if self.measurement is None or self.comparison is None or self.comparison.speedup is None:
            return 1.0
        return self.us / self.measurement.median_us if self.by_time else self.comparison.speedup

    def draw_speedups(self, generator: np.random.Generator, draws: int) -> Floats:
        """Return [draws] speedups from medians over resampled rounds of two blocks each."""
        rounds = self._rounds()
        if rounds.size < 2:
            return np.full(draws, self.speedup)
        drawn = rounds[generator.integers(0, rounds.size, (draws, rounds.size))]
        medians: Floats = np.median(drawn, axis=1)
        speedups: Floats = self.us / medians if self.by_time else medians
        return speedups

    def _rounds(self) -> Floats:
        """Return the submission's time in each round, or the ratio of the baseline's to it."""
        if self.measurement is None or self.comparison is None:
            return np.empty(0)
        own, other = (np.asarray(each, np.float64) for each in (self.measurement.block_us, self.comparison.block_us))
        if own.size != other.size or own.size % 2:
            return np.empty(0)
        mine, theirs = own.reshape(-1, 2).mean(axis=1), other.reshape(-1, 2).mean(axis=1)
        rounds: Floats = mine if self.by_time else theirs / mine
        return rounds


def group_rows(trace: Trace, results: Sequence[Result], fallback: bool) -> list[Group]:
    """Return the groups of rows that problems stand for, whether there are results for these problems or not."""
    by_problem = {result.problem: result for result in results}
    grouped: dict[int, tuple[StandIn, list[int]]] = {}
    for place, row in enumerate(trace.rows):
        found = stand_in(row)
        if found is not None:
            grouped.setdefault(id(found), (found, []))[1].append(place)
    return [_group(trace, stands, rows, by_problem.get(stands.problem), fallback) for stands, rows in grouped.values()]


def matches(trace: Trace, groups: Sequence[Group], speedups: Floats) -> list[Match]:
    """Return what was taken for what, one entry an operator, the longest first.

    Args:
        trace: that was grouped.
        groups: of its rows.
        speedups: [groups, draws] of the bootstrap.
    """
    steps, wall = len(trace.profiled_wall_us), wall_us(trace)
    tail = (1 - LEVEL) / 2
    found = []
    for group, drawn in zip(groups, speedups, strict=True):
        kinds: dict[tuple[str, str, str], float] = defaultdict(float)
        for row in (trace.rows[place] for place in group.rows):
            kinds[row.operation, row.owner, row.operator or row.kernel] += row.total_us / steps
        low, high = (float(end) for end in np.quantile(drawn, [tail, 1 - tail]))
        found += [
            Match(
                operation=operation,
                owner=owner,
                operator=operator,
                problem=group.stands.problem,
                submission=group.result.submission if group.result else "",
                baseline=group.baseline,
                by_time=group.by_time,
                reason=group.stands.reason,
                us=us,
                share=us / wall,
                outcome=group.outcome,
                speedup=group.speedup,
                low=low,
                high=high,
            )
            for (operation, owner, operator), us in kinds.items()
        ]
    return sorted(found, key=lambda each: -each.us)


def group_calls(trace: Trace, group: Group) -> list[list[int]]:
    """Return the launches of the step for the replay that one call of the submission each takes the place of.

    A problem that stands for a part of the model stands for all that the part launches, one after another.
    """
    if trace.launches is None or group.stands.part is None or group.measurement is None:
        return []
    rows, inside = set(group.rows), None
    calls: list[list[int]] = []
    for launch, row in enumerate(trace.launches.row):
        part = trace.rows[row].part
        if row in rows and inside == part:
            calls[-1].append(launch)
        elif row in rows:
            calls.append([launch])
        inside = part
    return calls


def step_times(trace: Trace, groups: Sequence[Group]) -> Floats:
    """Return [groups, steps] microseconds in which a group's kernels had the GPU to themselves.

    A kernel beside which another one runs saves nothing while that other one goes on.
    """
    times = np.zeros((len(groups), len(trace.profiled_wall_us)))
    for place, group in enumerate(groups):
        for row in (trace.rows[row] for row in group.rows):
            times[place] += np.asarray(row.step_us) * (row.exclusive_us / row.total_us)
    return times


def coverage(trace: Trace, groups: Sequence[Group], addressable: Sequence[bool]) -> float:
    """Return the share of addressable kernel time that a usable result stands for."""
    covered = {place for group in groups if group.comparison is not None for place in group.rows}
    times = [(row.total_us, place in covered) for place, row in enumerate(trace.rows) if addressable[place]]
    whole = sum(us for us, _ in times)
    return sum(us for us, known in times if known) / whole if whole else 0.0


def _group(trace: Trace, stands: StandIn, rows: list[int], result: Result | None, fallback: bool) -> Group:
    time: Counter[str] = Counter()
    for row in (trace.rows[place] for place in rows):
        time[BASELINES.get(row.owner, "eager")] += row.total_us  # type: ignore[assignment]
    baseline = time.most_common(1)[0][0]
    timed = result.measurement if result is not None and result.correct else None
    compared = (each for each in timed.comparisons if each.baseline == baseline) if timed else ()
    return Group(
        stands,
        rows,
        sum(time.values()) / len(trace.profiled_wall_us),
        baseline,
        result,
        next((each for each in compared if each.speedup is not None), None),
        result is not None and _same_size(trace, stands, result),
        fallback,
    )


def _same_size(trace: Trace, stands: StandIn, result: Result) -> bool:
    """Tell whether the workload was built with the constants that the result was timed with."""
    if not stands.same or result.measurement is None:
        return False
    constants = load_problems().find(stands.problem).constants(result.size, result.measurement.case)
    return all(trace.configuration.get(theirs) == constants.get(ours) for ours, theirs in stands.same.items())
