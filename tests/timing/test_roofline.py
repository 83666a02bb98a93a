"""Ceilings, and the floor that they set."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dlrm_bench.records import Costs
from dlrm_bench.timing.roofline import Ceilings, least_us, measure_ceilings, roofline

CEILINGS = Ceilings(copy_bytes_per_second=4e12, flops_per_second=8e14, gather_bytes_per_second=8e12)


@pytest.mark.parametrize(
    ("costs", "floor_us"),
    [
        (Costs(400e6, 400e6, 1e9, 0, 0), 100.0),
        (Costs(400e6, 400e6, 160e9, 0, 0), 200.0),
        (Costs(400e6, 1200e6, 1e9, 3_000_000, 1_000_000), 150.0),
        (Costs(400e6, 600e6, 1e9, 2_000_000, 1_000_000), 100.0),
    ],
    ids=["memory", "arithmetic", "look-ups", "look-ups, mostly of distinct rows"],
)
def test_the_floor_is_what_takes_longest(costs: Costs, floor_us: float) -> None:
    found = roofline(costs, CEILINGS, 400.0)
    assert found.floor_us == pytest.approx(floor_us)
    assert found.share == pytest.approx(floor_us / 400)
    assert found.gather_bytes_per_second == 8e12


def test_nothing_is_refused_by_the_gather_rate() -> None:
    assert least_us(Costs(400e6, 4000e6, 0.0, 10_000_000, 1_000_000), CEILINGS) == pytest.approx(100.0)


PROBE = """
import sys
import torch
from dlrm_bench.timing.gather import ROW_WORDS, SHARE, combine_rows
table = torch.randint(1 << 62, (50, ROW_WORDS), device=sys.argv[1])
indices = torch.randint(50, (3 * SHARE,), device=sys.argv[1])
expected = torch.zeros(3, dtype=torch.int64, device=sys.argv[1])
for words in table[indices].reshape(3, -1).unbind(1):
    expected ^= words
assert torch.equal(combine_rows(table, indices), expected)
"""


@pytest.mark.parametrize(("device", "interpret"), [("cpu", "1"), pytest.param("cuda", "0", marks=pytest.mark.gpu)])
def test_the_probe_reads_every_row_that_is_asked_for(python: Callable[..., Any], device: str, interpret: str) -> None:
    pytest.importorskip("triton")
    done = python("-c", PROBE, device, env={**os.environ, "TRITON_INTERPRET": interpret})
    assert done.code == 0, done.err


@pytest.mark.gpu
def test_ceilings_of_a_gpu_are_in_order() -> None:
    found = measure_ceilings(torch.device("cuda", 0))
    again = measure_ceilings(torch.device("cuda", 0))
    assert found.gather_bytes_per_second > found.copy_bytes_per_second > 1e11
    for one, other in zip(found, again, strict=True):
        assert one == pytest.approx(other, rel=0.05)
