"""What the clock says: from the blocks of a race to speedups with intervals, and figures that are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlrm_bench.records import Comparison, Effort, Measurement, Outcome, Reason, status_of
from dlrm_bench.timing.race import Contestant, Race
from dlrm_bench.timing.roofline import Ceilings, roofline
from dlrm_bench.timing.statistics import distance, noise_of, paired_speedup

LAUNCH_ALLOWANCE_US = {"cuda_events": 200.0, "cpu_perf_counter": 1000.0}
"""What a call may take on the host beyond the time it claims: queueing on a GPU, the loop on a CPU."""
EXPLAINED = 0.5
"""Share of the rest of the parent's own time that the claimed time must explain."""
IMPOSSIBLE = 1.05
"""Share of its floor that no honest kernel reaches."""


def refuse(submission: Contestant, race: Race, ceilings: Ceilings | None) -> Reason | None:
    """Return why a submission's time is not believed, if it is not.

    Two ways: it claims far less than the parent's own clock saw pass (work on another stream or thread, a tampered
    timer), or less than its bytes or operations need on this device.
    """
    claimed = float(np.median(submission.block_us))
    seen = EXPLAINED * (submission.wall_us - LAUNCH_ALLOWANCE_US[race.clock])
    if claimed < seen:
        message = f"claims {claimed:.1f} us a call, but {submission.wall_us:.1f} us passed on the parent's own clock"
        return Reason("time_not_explained", message, value=claimed, threshold=seen)
    costs = race.costs
    if costs is None or ceilings is None:
        return None
    reached = roofline(costs, ceilings, claimed)
    if reached.share <= IMPOSSIBLE:
        return None
    message = (
        f"claims {claimed:.1f} us, but what it must move or compute needs {reached.floor_us:.1f} us on this device"
    )
    return Reason("time_impossible", message, value=claimed, threshold=reached.floor_us)


def measurement(
    submission: Contestant,
    control: Contestant | None,
    baselines: Sequence[tuple[Contestant, str]],
    race: Race,
    effort: Effort,
    calls: int,
    ceilings: Ceilings | None,
) -> Measurement:
    """Put together what the clock says of one submission.

    Args:
        submission: the submission, after the race.
        control: the same submission in another child, if it ran.
        baselines: the baselines, each with a line on what it is.
        race: what they ran in.
        effort: how long.
        calls: in each block.
        ceilings: the device's, on a GPU.
    """
    ratio = None
    if control is not None and control.reason is None:
        ratio = paired_speedup(submission.by_round(), control.by_round())
    others = [each.by_round() for each, _ in baselines if each.reason is None]
    noise = (
        distance(ratio) if ratio else max((noise_of(submission.by_round() / other) for other in others), default=0.0)
    )
    median_us = float(np.median(submission.block_us))
    costs = race.costs
    return Measurement(
        clock=race.clock,
        cold=race.flush_bytes > 0,
        effort=effort,
        median_us=median_us,
        wall_us=submission.wall_us,
        noise=noise,
        control=ratio.median if ratio else None,
        comparisons=[_compare(submission, each, about, noise) for each, about in baselines],
        costs=costs,
        roofline=roofline(costs, ceilings, median_us) if costs and ceilings else None,
        block_us=submission.block_us,
        calls_per_block=calls,
    )


def _compare(submission: Contestant, baseline: Contestant, about: str, noise: float) -> Comparison:
    if baseline.reason is not None:
        return Comparison(baseline.name, status_of(baseline.reason), f"{about}; {baseline.reason.message}")
    speedup = paired_speedup(submission.by_round(), baseline.by_round())
    return Comparison(
        baseline=baseline.name,
        status="correct",
        message=about,
        median_us=float(np.median(baseline.block_us)),
        speedup=speedup.median,
        low=speedup.low,
        high=speedup.high,
        outcome=outcome(speedup.low, speedup.high, noise),
        block_us=list(baseline.block_us),
    )


def outcome(low: float, high: float, noise: float) -> Outcome:
    """Return win if the interval lies above 1 + noise, loss if it lies below 1 - noise, tie otherwise."""
    if low > 1 + noise:
        return "win"
    return "loss" if high < 1 - noise else "tie"
