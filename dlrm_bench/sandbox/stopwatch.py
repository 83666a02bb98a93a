"""Time calls inside the child.

What the loops need is bound here, when this module is imported, which is before any submission is: replacing
`torch.cuda.Event` or `time.perf_counter_ns` later changes nothing. The parent trusts none of it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import torch

_Event = torch.cuda.Event
_synchronize = torch.cuda.synchronize
_sleep = getattr(torch.cuda, "_sleep", None)
CYCLES_PER_US = 2000


class Stopwatch:
    """Times blocks of calls on one device, and keeps what the calls returned."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flush: torch.Tensor | None = None
        self.outputs: list[Any] = []

    def block(
        self, call: Callable[..., Any], sets: Sequence[Sequence[Any]], calls: int, flush_bytes: int, queue_ahead: bool
    ) -> tuple[list[float], float]:
        """Call `calls` times over the argument sets in turn.

        Args:
            call: the model.
            sets: argument lists.
            calls: how many.
            flush_bytes: size of the buffer that is overwritten before each call to empty the L2; 0 for none.
            queue_ahead: keep a GPU busy until the host has queued the calls.

        Returns:
            The microseconds of each call, and of the whole block on the host.
        """
        self.outputs = []
        if self._device.type == "cuda":
            return self._cuda_block(call, sets, calls, flush_bytes, queue_ahead)
        return self._cpu_block(call, sets, calls)

    def _cpu_block(
        self, call: Callable[..., Any], sets: Sequence[Sequence[Any]], calls: int
    ) -> tuple[list[float], float]:
        times, begin = [], perf_counter_ns()
        for i in range(calls):
            arguments = sets[i % len(sets)]
            start = perf_counter_ns()
            output = call(*arguments)
            times.append((perf_counter_ns() - start) / 1e3)
            self.outputs.append(output)
        return times, (perf_counter_ns() - begin) / 1e3

    def _cuda_block(
        self, call: Callable[..., Any], sets: Sequence[Sequence[Any]], calls: int, flush_bytes: int, queue_ahead: bool
    ) -> tuple[list[float], float]:
        flush = self._flush_buffer(flush_bytes)
        marks = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in range(calls)]  # type: ignore[no-untyped-call]
        launch_us = self._launch_time(call, sets[0]) if queue_ahead else 0.0
        _synchronize(self._device)
        begin = perf_counter_ns()
        if _sleep is not None and queue_ahead:
            # The GPU waits while the host queues, so that no launch is measured as kernel time.
            _sleep(int(calls * launch_us * CYCLES_PER_US))
        for i, (start, end) in enumerate(marks):
            arguments = sets[i % len(sets)]
            if flush is not None:
                flush.zero_()
            start.record()
            output = call(*arguments)
            end.record()
            self.outputs.append(output)
        _synchronize(self._device)
        host_us = (perf_counter_ns() - begin) / 1e3
        return [start.elapsed_time(end) * 1e3 for start, end in marks], host_us

    def _launch_time(self, call: Callable[..., Any], arguments: Sequence[Any]) -> float:
        _synchronize(self._device)
        start = perf_counter_ns()
        call(*arguments)
        return (perf_counter_ns() - start) / 1e3

    def _flush_buffer(self, nbytes: int) -> torch.Tensor | None:
        if nbytes == 0:
            return None
        if self._flush is None or self._flush.numel() != nbytes:
            self._flush = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
        return self._flush
