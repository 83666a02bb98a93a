"""The device's ceilings, measured on it, and how near to them a kernel came."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from dlrm_bench.records import Costs, Roofline

COPY_BYTES = 2 << 30
MATRIX_SIDE = 8192
REPEATS = 10


class Ceilings(NamedTuple):
    """What a device can do at most.

    Attributes:
        copy_bytes_per_second: bytes read and bytes written, of the fastest of several large copies.
        flops_per_second: floating-point operations of the fastest of several large bf16 matrix products.
    """

    copy_bytes_per_second: float
    flops_per_second: float


def measure_ceilings(device: torch.device) -> Ceilings:
    """Measure a GPU's copy bandwidth and its bf16 matrix rate on random data."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    copy_us = _fastest(lambda: target.copy_(source), device)
    left, right = (torch.randn(MATRIX_SIDE, MATRIX_SIDE, device=device, dtype=torch.bfloat16) for _ in range(2))
    product_us = _fastest(lambda: left @ right, device)
    return Ceilings(2 * COPY_BYTES / copy_us * 1e6, 2 * MATRIX_SIDE**3 / product_us * 1e6)


def roofline(costs: Costs, ceilings: Ceilings, median_us: float) -> Roofline:
    """Hold a time against the larger of the two times that memory and arithmetic need."""
    bandwidth, rate = ceilings
    floor_us = max(costs.compulsory_bytes / bandwidth, costs.flops / rate) * 1e6
    return Roofline(bandwidth, rate, floor_us, floor_us / median_us)


def _fastest(call: Callable[[], object], device: torch.device) -> float:
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        torch.cuda.synchronize(device)
        times.append(start.elapsed_time(end) * 1e3)
    return min(times)
