"""Which kernels a block of calls runs on a GPU and for how long, by the driver's own record (CUPTI)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from dlrm_bench.records import Kernel
from dlrm_bench.sandbox.stopwatch import Block, Model, Sets

HOLD_KERNEL = "spin_kernel"
NAME_CHARS = 200
KernelTimer = Callable[[Model, Sets, int, int], tuple[list[float], list[Kernel]]]


def kernel_timer(block: Block) -> KernelTimer:
    """Return what runs a block of calls, L2 as it is, and tells their times by the block's clock and their kernels."""
    on_gpu, profiler, each_kernel = torch.autograd.DeviceType.CUDA, profile, Kernel  # type: ignore[attr-defined]
    activities = [ProfilerActivity.CUDA]

    def timed(call: Model, sets: Sets, calls: int, hold_cycles: int) -> tuple[list[float], list[Kernel]]:
        with profiler(activities=activities) as recorded:
            times, _, _ = block(call, sets, calls, 0, hold_cycles)
        found: dict[str, list[float]] = {}
        for event in recorded.profiler.kineto_results.events():
            if event.device_type() == on_gpu and HOLD_KERNEL not in event.name():
                found.setdefault(event.name()[:NAME_CHARS], []).append(event.duration_ns() / 1e3)
        kernels = [each_kernel(name, len(us) / calls, sum(us) / calls) for name, us in found.items()]
        return times, sorted(kernels, key=lambda kernel: -kernel.us)

    return timed
