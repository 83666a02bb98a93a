"""C5: replaces medians and ratios in its own process, which are not taken there."""

import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.timing import clock, statistics

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "least_us": 2000}

np.median = lambda values, *args, **options: 0.001
statistics.paired_speedup = lambda *args: statistics.Interval(1000.0, 1000.0, 1000.0)
clock.refuse = lambda *args: None
clock.paired_speedup = statistics.paired_speedup


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
