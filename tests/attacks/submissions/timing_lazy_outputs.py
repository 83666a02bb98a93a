"""C3: replaces the runner's clock by one that runs nothing, and its kept outputs by ones computed on demand."""

import time

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.sandbox import stopwatch

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "wrong_while_timed"], "gpu": False}


class Lazy:
    def __init__(self, call: object, sets: list):
        self.call = call
        self.sets = sets

    def __getitem__(self, index: int | slice) -> torch.Tensor | list[torch.Tensor]:
        if isinstance(index, slice):
            return []
        return self.call(*self.sets[index % len(self.sets)])


def block(self: object, call: object, sets: list, calls: int, flush_bytes: int) -> tuple[list[float], float]:
    self.outputs = Lazy(call, [[each.clone() for each in one] for one in sets])
    return [20.0 + i % 3 for i in range(calls)], 21.0 * calls


stopwatch.Stopwatch.block = block


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
