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
        gather_bytes_per_second: rows of a table read at random out of the L2.
    """

    copy_bytes_per_second: float
    flops_per_second: float
    gather_bytes_per_second: float


def measure_ceilings(device: torch.device) -> Ceilings:
    """Measure a GPU's copy bandwidth, its bf16 matrix rate and its gather rate on random data."""
    from dlrm_bench.timing.gather import measure_gather

    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    copy_us = min(times_of(lambda: target.copy_(source), device))
    left, right = (torch.randn(MATRIX_SIDE, MATRIX_SIDE, device=device, dtype=torch.bfloat16) for _ in range(2))
    product_us = min(times_of(lambda: left @ right, device))
    matrix_rate = 2 * MATRIX_SIDE**3 / product_us * 1e6
    return Ceilings(2 * COPY_BYTES / copy_us * 1e6, matrix_rate, measure_gather(device))


def least_us(costs: Costs, ceilings: Ceilings) -> float:
    """Return the time that nothing can be faster than: every byte moved once, or the arithmetic."""
    return 1e6 * max(costs.compulsory_bytes / ceilings.copy_bytes_per_second, costs.flops / ceilings.flops_per_second)


def roofline(costs: Costs, ceilings: Ceilings, median_us: float) -> Roofline:
    """Hold a time against its floor: the least time, or what all bytes that are asked for take out of the L2.

    The latter counts for look-ups, which ask for rows again and again. A kernel that finds rows nearer than in the L2
    can be faster.
    """
    floor_us = max(least_us(costs, ceilings), 1e6 * costs.algorithmic_bytes / ceilings.gather_bytes_per_second)
    copy_rate, matrix_rate, gather_rate = ceilings
    return Roofline(copy_rate, matrix_rate, floor_us, floor_us / median_us, gather_rate)
