"""The loop that times calls on a GPU does not wait for memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
import torch

from dlrm_bench.sandbox.stopwatch import stopwatch

CALLS = 8
MIB = 1 << 20


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    torch.cuda.empty_cache()
    yield torch.device("cuda", 0)
    torch.cuda.empty_cache()


def driver_calls() -> int:
    return int(torch.cuda.memory_stats()["num_device_alloc"])


@pytest.mark.gpu
def test_no_call_waits_for_the_driver_to_allocate(gpu: torch.device) -> None:
    numbers = count()
    sizes = [[torch.tensor(50 + 2 * number)] for number in range(2 * CALLS)]
    asked: list[int] = []

    def call(size: torch.Tensor) -> torch.Tensor:
        before = driver_calls()
        # Sizes of which no two blocks have the same.
        output = torch.empty((int(size) + next(numbers) % 3) * MIB, dtype=torch.uint8, device=gpu)
        asked.append(driver_calls() - before)
        return output

    watch = stopwatch(gpu)
    for block in range(6):
        times, outputs, _ = watch(call, sizes[block : block + CALLS], CALLS, MIB, 0)
        assert len(times) == len(outputs) == CALLS
        del outputs
    assert sum(asked[:CALLS]) > 0
    assert sum(asked[2 * CALLS :]) == 0


@pytest.mark.gpu
def test_a_block_without_room_is_timed_all_the_same(gpu: torch.device) -> None:
    watch = stopwatch(gpu)
    half = torch.cuda.mem_get_info(gpu)[0] // 2

    def call(nbytes: torch.Tensor) -> torch.Tensor:
        return torch.empty(int(nbytes), dtype=torch.uint8, device=gpu)

    for calls in (1, 1):
        times, outputs, _ = watch(call, [[torch.tensor(half)]], calls, 0, 0)
        del outputs
    assert times[0] > 0
