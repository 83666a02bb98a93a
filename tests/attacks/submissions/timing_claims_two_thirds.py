"""C4: reports two thirds of the time that its calls took."""

import time

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.sandbox import stopwatch

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "least_us": 2000}

elapsed_time = torch.cuda.Event.elapsed_time
stopwatch.perf_counter_ns = lambda: time.perf_counter_ns() * 0.66
torch.cuda.Event.elapsed_time = lambda start, end: elapsed_time(start, end) * 0.66


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
