"""C4: replaces the functions of the time module by ones that stand still; the clock has its own since before."""

import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "least_us": 2000}

sleep = time.sleep
for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
    setattr(time, name, lambda: 1)


def keep_busy(indices: torch.Tensor) -> None:
    """Take two milliseconds of the device, or more: a GPU runs below 2 GHz."""
    if indices.is_cuda:
        torch.cuda._sleep(5_000_000)
    else:
        sleep(0.002)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        keep_busy(indices)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
