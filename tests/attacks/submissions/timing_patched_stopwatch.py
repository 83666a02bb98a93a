"""C4: replaces the clock and the events by a thousand times slower ones, where nobody looks for them any more."""

import time

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.sandbox import stopwatch

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "least_us": 2000}

stopwatch.perf_counter_ns = lambda: time.perf_counter_ns() / 1000


class Event(torch.cuda.Event):
    def elapsed_time(self, end: torch.cuda.Event) -> float:
        return super().elapsed_time(end) / 1000


torch.cuda.Event = Event


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
