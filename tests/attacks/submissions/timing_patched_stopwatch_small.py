"""C4: does the same with work of microseconds, which the cost of asking for it may hide."""

import time

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.sandbox import stopwatch

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "most_speedup": 3.0}

stopwatch.perf_counter_ns = lambda: time.perf_counter_ns() / 1000


class Event(torch.cuda.Event):
    def elapsed_time(self, end: torch.cuda.Event) -> float:
        return super().elapsed_time(end) / 1000


torch.cuda.Event = Event


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.right(indices, offsets)
