"""Which kernels a block of calls runs on a GPU and for how long, by the driver's own record (CUPTI)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from dlrm_bench.records import Kernel
from dlrm_bench.sandbox.messages import Profiled
from dlrm_bench.sandbox.stopwatch import Block, Model, Sets

HOLD_KERNEL = "spin_kernel"
NAME_CHARS = 200
KernelTimer = Callable[[Model, Sets, int, int], tuple[Profiled, list[Any]]]


def kernel_timer(block: Block) -> KernelTimer:
    """Return what runs a block of calls, L2 as it is, and tells their times, their kernels, and what each returned."""
    on_gpu, profiler, each_kernel = torch.autograd.DeviceType.CUDA, profile, Kernel  # type: ignore[attr-defined]
    activities, answer, covered = [ProfilerActivity.CUDA], Profiled, busy

    def timed(call: Model, sets: Sets, calls: int, hold_cycles: int) -> tuple[Profiled, list[Any]]:
        with profiler(activities=activities) as recorded:
            times, outputs, _ = block(call, sets, calls, 0, hold_cycles)
        ran = sorted(
            (event.start_ns(), event.start_ns() + event.duration_ns(), event.name()[:NAME_CHARS])
            for event in recorded.profiler.kineto_results.events()
            if event.device_type() == on_gpu
        )
        # What keeps the GPU busy first is the block's own; later ones of that name are not.
        ran = ran[1:] if ran and HOLD_KERNEL in ran[0][2] else ran
        found: dict[str, list[float]] = {}
        for start, end, name in ran:
            found.setdefault(name, []).append((end - start) / 1e3)
        kernels = [each_kernel(name, len(us) / calls, sum(us) / calls) for name, us in found.items()]
        busy_us = covered([(start, end) for start, end, _ in ran]) / 1e3 / calls
        return answer(times, sorted(kernels, key=lambda kernel: -kernel.us), busy_us), outputs

    return timed


def busy(spans: Iterable[tuple[int, int]]) -> int:
    """Return for how long at least one of some spans of time, each a start and an end, lasted."""
    total, reached = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
