"""Do the events and the driver's own record of the kernels tell the same time?"""

from __future__ import annotations

import statistics

from dlrm_bench.records import Reason, SecondClock
from dlrm_bench.sandbox.messages import Profiled

AGREEMENT = 0.1
LAUNCH_US = 4.0
"""What one launch costs at most beyond its kernel, queued ahead."""


def second_clock(profiled: Profiled, host_us: float) -> SecondClock:
    """Hold the time of calls by their events against the time of their kernels.

    Args:
        profiled: both, of the same calls.
        host_us: what a call takes when nothing is queued ahead.
    """
    event_us = statistics.fmean(profiled.times_us)
    kernel_us = sum(kernel.us for kernel in profiled.kernels)
    launches = sum(kernel.launches for kernel in profiled.kernels)
    gap = event_us - kernel_us
    agrees = abs(gap) <= AGREEMENT * kernel_us + LAUNCH_US * launches
    note = "" if agrees else _why(gap, launches, host_us)
    return SecondClock(event_us, kernel_us, profiled.kernels, agrees, note, profiled.busy_us)


def refuse_hidden(found: SecondClock, claimed_us: float) -> Reason | None:
    """Return why a time is not believed whose kernels keep a GPU busy for longer: they run where no event looks.

    That is how work beside a flush, or while the GPU is kept busy before a block, is seen. Kernels are recorded with
    the L2 as it is, so that they take no longer than in a block whose L2 was flushed.

    Args:
        found: what the second clock says.
        claimed_us: time of a call in the blocks that count.
    """
    most = (1 + AGREEMENT) * claimed_us + LAUNCH_US
    if found.busy_us is None or found.busy_us <= most:
        return None
    message = f"claims {claimed_us:.1f} us a call, but its kernels keep the GPU busy for {found.busy_us:.1f} us"
    return Reason("time_not_explained", message, value=found.busy_us, threshold=most)


def _why(gap: float, launches: float, host_us: float) -> str:
    if gap < 0:
        return f"kernels overlap, or run outside the call: they add up to {-gap:.1f} us more than passed"
    if launches == 0:
        return "no kernel ran"
    return f"{gap:.1f} us a call lie between its {launches:.0f} launches; the host takes {host_us:.1f} us to make them"
