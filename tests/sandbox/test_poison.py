"""Memory that nobody has written yet holds what the judge put there."""

from __future__ import annotations

import pytest
import torch

from dlrm_bench.sandbox.poison import poisoned

PATTERN = 0xA5


@pytest.mark.gpu
@pytest.mark.parametrize(
    "sizes",
    [[300_000], [300_000] * 5, [1_000_000] * 3, [1_500_000], [5_000_000, 700_000], [40_000_000, 3_000_000, 600]],
    ids=str,
)
def test_what_a_gpu_has_free_is_filled_and_nothing_more_is_taken(sizes: list[int]) -> None:
    device = torch.device("cuda", 0)
    torch.cuda.empty_cache()
    before = [torch.zeros(size, dtype=torch.uint8, device=device) for size in sizes]
    del before
    reserved = torch.cuda.memory_reserved(device)
    with poisoned(device, PATTERN):
        found = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
    assert torch.cuda.memory_reserved(device) == reserved
    assert all(bool((each == PATTERN).all()) for each in found)


def test_what_a_cpu_hands_out_is_filled_and_no_longer_than_that() -> None:
    with poisoned(torch.device("cpu"), PATTERN):
        found = torch.empty(5_000_000, dtype=torch.uint8)
        assert bool((found == PATTERN).all())
    # What it is handed out with next must not be what it held when it was given back.
    found.zero_()
    del found
    assert not bool((torch.empty(5_000_000, dtype=torch.uint8) == PATTERN).all())
