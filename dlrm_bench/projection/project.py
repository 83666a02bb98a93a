"""What a submission's results would do to a workload, by every method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlrm_bench.projection import bounds
from dlrm_bench.projection.choose import check_fit, choose_results
from dlrm_bench.projection.matched import Floats, Group, coverage, group_calls, group_rows, matches, step_times
from dlrm_bench.projection.paper import paper_saving_of, win_rate_and_median
from dlrm_bench.projection.replay import Replay, identity
from dlrm_bench.projection.savings import make_saving
from dlrm_bench.records import Identity, Projection, Result, Saving, Trace, TraceRow
from dlrm_bench.traces.policies import DEFAULT_POLICY, find_policy
from dlrm_bench.traces.summary import addressable_fractions, trace_warnings, wall_us

RESAMPLES = 2000
REPLAYS = 200
MOST_REPLAYED_LAUNCHES = 1_000_000
LITTLE_COVERED = 0.5
MUCH_OVERLAP = 0.02


def project(
    trace: Trace,
    results: Sequence[Result],
    *,
    submission: str | None = None,
    policy: str = DEFAULT_POLICY,
    fallback: bool = False,
    force: bool = False,
    seed: int = 0,
) -> Projection:
    """Project results onto a trace.

    Args:
        trace: of a workload.
        results: of any submissions, on the trace's GPU and in its precision.
        submission: label of the one to project; the only one that is no baseline if left out.
        policy: what counts as addressable.
        fallback: whether kernels stay as they are where the submission loses.
        force: whether results of another GPU or precision are taken all the same.
        seed: of the bootstrap.

    Raises:
        UsageError: there is no such submission or policy.
        MismatchError: the results do not fit the trace.
    """
    chosen, rules = choose_results(results, submission), find_policy(policy)
    forced = check_fit(trace, chosen, force)
    groups = group_rows(trace, chosen, fallback)
    times = step_times(trace, groups)
    addressable = [rules.addressable(row) for row in trace.rows]
    fractions = {each.denominator: each.fraction for each in addressable_fractions(trace, rules)}
    generator = np.random.default_rng(seed)
    speedups = np.array([group.draw_speedups(generator, RESAMPLES) for group in groups]).reshape(len(groups), RESAMPLES)
    savings = [paper_saving_of(fractions["kernels"], chosen, seed), _matched(trace, groups, times, speedups, generator)]
    check = None
    if trace.launches is not None:
        replay = Replay(trace.launches)
        check = identity(trace, replay)
        savings.append(_replayed(trace, replay, check, groups, speedups))
    savings += [
        bounds.best_library(trace, groups, times),
        bounds.roofline(trace, groups, times),
        bounds.infinite(trace, _in_reach(trace, groups, addressable)),
    ]
    win_rate, median = win_rate_and_median(chosen)
    covered = coverage(trace, groups, addressable)
    return Projection(
        workload=trace.workload,
        gpu=trace.provenance.gpu,
        submission=chosen[0].submission,
        policy=policy,
        fallback=fallback,
        wall_us=wall_us(trace),
        wall_is_profiled=not trace.wall_us,
        addressable=fractions["wall"],
        coverage=covered,
        win_rate=win_rate,
        median_speedup_of_wins=median,
        savings=savings,
        matches=matches(trace, groups, speedups),
        identity=check,
        forced=forced,
        warnings=[*trace_warnings(trace), *_warnings(trace, chosen, groups, covered)],
    )


def _in_reach(trace: Trace, groups: Sequence[Group], addressable: Sequence[bool]) -> list[TraceRow]:
    """Return the rows that are addressable, and those of vendors' libraries that a problem stands for as well."""
    matched = {place for group in groups for place in group.rows}
    return [row for place, row in enumerate(trace.rows) if addressable[place] or place in matched]


def _matched(
    trace: Trace, groups: Sequence[Group], times: Floats, speedups: Floats, generator: np.random.Generator
) -> Saving:
    saved = 1 - 1 / np.array([group.speedup for group in groups])
    point = float(times.mean(axis=1) @ saved) / wall_us(trace) if groups else 0.0
    walls = np.asarray(trace.wall_us or trace.profiled_wall_us)
    drawn_walls = np.median(walls[generator.integers(0, walls.size, (RESAMPLES, walls.size))], axis=1)
    steps = generator.integers(0, times.shape[1], (RESAMPLES, times.shape[1]))
    drawn_times = times[:, steps].mean(axis=2)
    draws = (drawn_times * (1 - 1 / speedups)).sum(axis=0) / drawn_walls
    return make_saving("matched", point, draws, note="each kernel by the result of the problem that stands for it")


def _replayed(trace: Trace, replay: Replay, check: Identity, groups: Sequence[Group], speedups: Floats) -> Saving:
    calls = [call for group in groups for call in group_calls(trace, group)]

    def saved(chosen: Sequence[float] | Floats) -> float:
        scale = np.ones(len(trace.rows))
        for group, speedup in zip(groups, chosen, strict=True):
            scale[group.rows] = 1 / speedup
        return (check.replayed_us - replay.wall(scale, calls)) / check.wall_us

    launches = len(trace.launches.row) if trace.launches else 0
    times = min(REPLAYS, MOST_REPLAYED_LAUNCHES // max(1, launches), speedups.shape[1])
    draws = [saved(speedups[:, draw]) for draw in range(times)] if times >= REPLAYS // 10 else None
    note = f"unchanged launches give {check.replayed_us:.0f} us for a step of {check.wall_us:.0f} us"
    if not check.valid:
        note += f", {check.error:.1%} off: not valid for this trace"
    return make_saving("replay", saved([group.speedup for group in groups]), draws, valid=check.valid, note=note)


def _warnings(trace: Trace, results: Sequence[Result], groups: Sequence[Group], covered: float) -> list[str]:
    found = []
    if covered < LITTLE_COVERED:
        found.append(f"results stand for {covered:.0%} of addressable kernel time; the rest is taken as unchanged")
    if trace.precision is None:
        found.append(f"the trace does not say its precision; the results are in {results[0].precision}")
    small = sorted({result.problem for result in results if result.size == "small"})
    if small:
        found.append(f"results of the small size: {', '.join(small)}")
    rows = [trace.rows[place] for group in groups for place in group.rows]
    alone, whole = sum(row.exclusive_us for row in rows), sum(row.total_us for row in rows)
    if whole and alone < (1 - MUCH_OVERLAP) * whole:
        found.append(f"{1 - alone / whole:.0%} of the matched time runs beside other kernels and counts as not saved")
    return found
