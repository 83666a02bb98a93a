"""What the clock itself costs on a device, and how to time a call there from this process."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch

FLUSH_BYTES = 256 << 20
"""Overwritten before each timed call on a GPU: several times the L2 of any."""
SLEEP_CYCLES = 2_000_000
REPEATS = 10


class ClockCosts(NamedTuple):
    """What a block spends beside the calls.

    Attributes:
        flush_bytes: overwritten before each call, to empty the L2; 0 where there is nothing to empty.
        flush_us: how long that takes.
        cycles_per_us: cycles of the clock by which a GPU is kept busy; 0 where nothing is queued.
    """

    flush_bytes: int
    flush_us: float
    cycles_per_us: float

    @staticmethod
    def on(device: torch.device, cold: bool) -> ClockCosts:
        """Measure them; with `cold` left out nothing is flushed."""
        if device.type != "cuda":
            return ClockCosts(0, 0.0, 0.0)
        sleep_us = statistics.median(times_of(_sleep, device))
        if not cold:
            return ClockCosts(0, 0.0, SLEEP_CYCLES / sleep_us)
        buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        return ClockCosts(FLUSH_BYTES, statistics.median(times_of(buffer.zero_, device)), SLEEP_CYCLES / sleep_us)


def times_of(call: Callable[[], object], device: torch.device) -> list[float]:
    """Return the microseconds of several calls of trusted code on a GPU, after one that does not count.

    The GPU is kept busy while the host launches a call.
    """
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        _sleep()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize(device)
        times.append(start.elapsed_time(end) * 1e3)
    return times


def _sleep() -> None:
    torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
