"""What results would do to a workload."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlrm_bench.records.base import Record

Method = Literal["paper", "matched", "replay", "infinite", "roofline", "best_library"]


class Saving(Record, frozen=True):
    """How much shorter a step would be by one method, as time saved and as speedup.

    Attributes:
        method: which.
        saved: share of the step that is saved; negative where it gets longer.
        speedup: old step over new step: 1 / (1 - saved).
        saved_low: lower end of the bootstrap 95% interval of `saved`, if there is one.
        saved_high: upper end.
        speedup_low: the same of `speedup`.
        speedup_high: upper end.
        valid: whether the method's own check holds on this trace.
        note: why not, or what the figure rests on.
    """

    method: Method
    saved: float
    speedup: float
    saved_low: float | None = None
    saved_high: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    valid: bool = True
    note: str = ""


class Match(Record, frozen=True):
    """Kernels of a trace and the result that stands for them.

    Attributes:
        operation: what the kernels do.
        owner: whose they are.
        operator: what launched them.
        problem: name of the problem that stands for them.
        submission: label of the submission whose result it is.
        baseline: which of its comparisons counts: that with whoever wrote the kernels.
        by_time: whether the submission's own time counts, the workload being of the problem's size, and not the ratio.
        reason: why the problem stands for them.
        us: kernel time in a step.
        share: of the step's wall.
        outcome: of that comparison, or why the speedup is taken as 1.
        speedup: old time over new.
        low: lower end of its interval.
        high: upper end.
    """

    operation: str
    owner: str
    operator: str
    problem: str
    submission: str
    baseline: str
    by_time: bool
    reason: str
    us: float
    share: float
    outcome: str
    speedup: float
    low: float
    high: float


class Identity(Record, frozen=True):
    """The replay of unchanged launches beside the step that it should give back.

    Attributes:
        replayed_us: the replayed step.
        wall_us: the median step without the profiler, or with it if there is none without.
        error: how far the first is from the second, relative.
        valid: whether that is at most 2%.
    """

    replayed_us: float
    wall_us: float
    error: float
    valid: bool


class Projection(Record, frozen=True):
    """What `project --json` prints.

    Attributes:
        workload: name of the workload.
        gpu: where its trace was taken.
        submission: label of the submission that was projected.
        policy: what counts as addressable.
        fallback: whether a kernel that loses is taken not to be used.
        wall_us: the median step that all shares refer to.
        wall_is_profiled: whether it was taken with the profiler.
        addressable: addressable share of that step.
        coverage: share of addressable kernel time that a result stands for.
        win_rate: of the submission over the results given, for the paper's formula.
        median_speedup_of_wins: likewise.
        savings: one entry a method, the bounds among them.
        matches: which kernels were taken for which problem.
        identity: the replay's own check, if the trace has launches.
        forced: in what the results differ from the trace, where that was overridden.
        warnings: what a reader should know before using these figures.
    """

    workload: str
    gpu: str
    submission: str
    policy: str
    fallback: bool
    wall_us: float
    wall_is_profiled: bool
    addressable: float
    coverage: float
    win_rate: float
    median_speedup_of_wins: float | None
    savings: list[Saving]
    matches: list[Match]
    identity: Identity | None
    forced: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)

    def saving(self, method: Method) -> Saving | None:
        """Return the saving by one method, if it could be told."""
        return next((each for each in self.savings if each.method == method), None)
