"""What the clock says: from the blocks of a race to speedups with intervals, and figures that are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlrm_bench.records import Comparison, Effort, Measurement, Outcome, Reason, status_of
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.race import Race
from dlrm_bench.timing.roofline import Ceilings, least_us, roofline
from dlrm_bench.timing.statistics import Interval, distance, paired_speedup, widened

ASKING_US = 1500.0
LOOP_US = 25.0
"""What of a block's time on the parent's clock may go into waking the child and asking it, and into a call's loop: more
than a host that is not busy takes for it."""
EXPLAINED = 0.75
"""Share of the rest that the claimed times must explain."""
SPARE_US = 400.0
SPARE = 0.15
"""What of a block's time on the parent's clock may lie outside its calls beyond what does so for a baseline:
microseconds, and a share of the claimed times."""
LEAST_NOISE = 0.005
"""How far two children that run the same code may lie apart for good: their memory lies elsewhere."""
IMPOSSIBLE = 1.05
"""How much faster than the least time, which is measured too, no honest kernel is."""


def refuse(
    submission: Contestant, baselines: Sequence[Contestant], race: Race, calls: int, ceilings: Ceilings | None
) -> Reason | None:
    """Return why a submission's time is not believed, if it is not.

    Three ways: it claims less than the parent's own clock saw pass (work on another stream or thread or ahead of the
    block, a tampered timer) or more (a flush left out), or less than its bytes or operations need on this device.

    The parent's clock is believed in the block where it says least: what a machine does beside only adds to it, and
    the work has to be done in every block, since each has inputs of its own. What lies outside the calls is held
    against a baseline's blocks too, which find the host as busy: it may be a little more than there, and as much may
    pass on the parent's clock.

    Args:
        submission: after the race.
        baselines: likewise; those that are out of it tell nothing.
        race: what they ran in.
        calls: in each block.
        ceilings: the device's, on a GPU.
    """
    claimed = float(np.median(submission.block_us))
    passed = min(submission.wall_us)
    ample = max(LOOP_US + ASKING_US / calls, _most_outside_us(baselines) + SPARE_US / calls)
    needed = EXPLAINED * (passed - ample)
    if claimed < needed or EXPLAINED * claimed > max(submission.wall_us):
        message = f"claims {claimed:.1f} us a call, but {passed:.1f} us passed on the parent's own clock"
        return Reason("time_not_explained", message, value=claimed, threshold=needed)
    outside = more_outside_us(submission, baselines) * calls
    spare = SPARE_US + SPARE * claimed * calls
    if outside > spare:
        message = f"claims {claimed:.1f} us a call, but {outside:.0f} us of a block of {calls} lie outside its calls"
        return Reason("time_not_explained", f"{message}, beyond what does so for a baseline", None, outside, spare)
    costs = race.costs
    if costs is None or ceilings is None:
        return None
    least = least_us(costs, ceilings)
    if least <= IMPOSSIBLE * claimed:
        return None
    message = f"claims {claimed:.1f} us, but what it must move or compute needs {least:.1f} us on this device"
    return Reason("time_impossible", message, value=claimed, threshold=least)


def more_outside_us(submission: Contestant, baselines: Sequence[Contestant]) -> float:
    """Return the microseconds a call that pass outside of calls, beyond those of the baseline that is most like it."""
    own = _outside_us(submission)
    others = [_outside_us(each) for each in baselines if each.reason is None]
    return min((float(np.median(own - other)) for other in others), default=0.0)


def _most_outside_us(baselines: Sequence[Contestant]) -> float:
    """Return the microseconds a call that pass outside of calls in every block of some baseline, or 0 without one."""
    return max((float(_outside_us(each).min()) for each in baselines if each.reason is None), default=0.0)


def _outside_us(contestant: Contestant) -> NDArray[np.float64]:
    return np.subtract(contestant.wall_us, contestant.block_us)


def measurement(
    submission: Contestant,
    control: Contestant,
    baselines: Sequence[tuple[Contestant, str]],
    race: Race,
    effort: Effort,
    calls: int,
    ceilings: Ceilings | None,
) -> Measurement:
    """Put together what the clock says of one submission.

    Args:
        submission: the submission, after the race.
        control: the same submission in another child.
        baselines: the baselines, each with a line on what it is.
        race: what they ran in.
        effort: how long.
        calls: in each block.
        ceilings: the device's, on a GPU.
    """
    ratio = paired_speedup(submission.by_round(), control.by_round())
    noise = max(LEAST_NOISE, distance(ratio))
    median_us = float(np.median(submission.block_us))
    costs = race.costs
    return Measurement(
        clock=race.clock,
        case=race.case,
        cold=race.clock_costs.flush_bytes > 0,
        effort=effort,
        median_us=median_us,
        wall_us=min(submission.wall_us),
        host_us=submission.host_us,
        noise=noise,
        control=ratio.median,
        comparisons=[_compare(submission, each, about, noise) for each, about in baselines],
        costs=costs,
        roofline=roofline(costs, ceilings, median_us) if costs and ceilings else None,
        block_us=submission.block_us,
        calls_per_block=calls,
    )


def _compare(submission: Contestant, baseline: Contestant, about: str, noise: float) -> Comparison:
    if baseline.reason is not None:
        return Comparison(baseline.name, status_of(baseline.reason), f"{about}; {baseline.reason.message}")
    speedup = widened(paired_speedup(submission.by_round(), baseline.by_round()), noise)
    return Comparison(
        baseline=baseline.name,
        status="correct",
        message=about,
        median_us=float(np.median(baseline.block_us)),
        speedup=speedup.median,
        low=speedup.low,
        high=speedup.high,
        outcome=outcome(speedup),
        block_us=list(baseline.block_us),
    )


def outcome(speedup: Interval) -> Outcome:
    """Return win if the interval lies above 1, loss if it lies below 1, tie otherwise."""
    if speedup.low > 1:
        return "win"
    return "loss" if speedup.high < 1 else "tie"
