"""C3: replaces the runner's clock by one that runs nothing, and its kept outputs by ones computed on demand."""

import gc
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["runtime_error"], "gpu": False}


class Lazy:
    def __init__(self, call: object, sets: list):
        self.call = call
        self.sets = sets

    def __getitem__(self, index: int | slice) -> torch.Tensor | list[torch.Tensor]:
        if isinstance(index, slice):
            return []
        return self.call(*self.sets[index % len(self.sets)])


def block(call: object, sets: list, calls: int, flush_bytes: int, hold_cycles: int) -> tuple[list[float], Lazy, int]:
    return [20.0 + i % 3 for i in range(calls)], Lazy(call, [[each.clone() for each in one] for one in sets]), 0


runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
runner._stopwatch = block


def keep_busy(indices: torch.Tensor) -> None:
    """Take two milliseconds of the device, or more: a GPU runs below 2 GHz."""
    if indices.is_cuda:
        torch.cuda._sleep(5_000_000)
    else:
        time.sleep(0.002)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        keep_busy(indices)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
