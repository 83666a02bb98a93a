"""The device's ceilings, measured on it, and how near to them a kernel came."""

from __future__ import annotations

from typing import NamedTuple

import torch

from dlrm_bench.records import Costs, Roofline
from dlrm_bench.timing.device import times_of

COPY_BYTES = 2 << 30
MATRIX_SIDE = 8192


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
    copy_us = min(times_of(lambda: target.copy_(source), device))
    left, right = (torch.randn(MATRIX_SIDE, MATRIX_SIDE, device=device, dtype=torch.bfloat16) for _ in range(2))
    product_us = min(times_of(lambda: left @ right, device))
    return Ceilings(2 * COPY_BYTES / copy_us * 1e6, 2 * MATRIX_SIDE**3 / product_us * 1e6)


def roofline(costs: Costs, ceilings: Ceilings, median_us: float) -> Roofline:
    """Hold a time against the larger of the two times that memory and arithmetic need."""
    bandwidth, rate = ceilings
    floor_us = max(costs.compulsory_bytes / bandwidth, costs.flops / rate) * 1e6
    return Roofline(bandwidth, rate, floor_us, floor_us / median_us)
