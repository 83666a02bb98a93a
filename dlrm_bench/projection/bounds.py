"""How far one could come: everything addressable gone, every match at its floor, or at the best library's time."""

from __future__ import annotations

from collections.abc import Sequence

from dlrm_bench.projection.matched import Floats, Group
from dlrm_bench.projection.savings import make_saving
from dlrm_bench.records import Method, Saving, Trace, TraceRow
from dlrm_bench.traces.summary import wall_us


def infinite(trace: Trace, in_reach: Sequence[TraceRow]) -> Saving:
    """Return what is saved if all that is addressable, or that a problem stands for, takes no time."""
    steps = len(trace.profiled_wall_us)
    share = min(sum(row.exclusive_us for row in in_reach) / steps / wall_us(trace), 1 - 1e-9)
    return make_saving("infinite", share, note="all kernels that are addressable or stood for in no time")


def roofline(trace: Trace, groups: Sequence[Group], times: Floats) -> Saving:
    """Return what is saved if every match runs at the floor that its result's costs have on that GPU."""
    floors = [_floor_us(group) for group in groups]
    return _bound(trace, "roofline", times, groups, floors, "at the floor of their problem")


def best_library(trace: Trace, groups: Sequence[Group], times: Floats) -> Saving:
    """Return what is saved if every match runs at the time of the fastest baseline of its problem."""
    fastest = [_fastest_baseline_us(group) for group in groups]
    return _bound(trace, "best_library", times, groups, fastest, "as fast as the fastest baseline of their problem")


def _floor_us(group: Group) -> float | None:
    measurement = group.result.measurement if group.result else None
    return measurement.roofline.floor_us if measurement and measurement.roofline else None


def _fastest_baseline_us(group: Group) -> float | None:
    measurement = group.result.measurement if group.result else None
    compared = measurement.comparisons if measurement else []
    return min((each.median_us for each in compared if each.status == "correct" and each.median_us), default=None)


def _bound(
    trace: Trace,
    method: Method,
    times: Floats,
    groups: Sequence[Group],
    bounds_us: Sequence[float | None],
    what: str,
) -> Saving:
    """Return the saving if each group took its bound, or what it takes now where that is less or no bound is known."""
    saved, known = 0.0, 0
    for group, time, bound in zip(groups, times.mean(axis=1), bounds_us, strict=True):
        now = group.us if group.by_time else group.comparison.median_us if group.comparison else None
        if now is None or bound is None:
            continue
        known += 1
        saved += float(time) * max(0.0, 1 - bound / now)
    return make_saving(method, saved / wall_us(trace), note=f"{known} of {len(groups)} groups of kernels {what}")
