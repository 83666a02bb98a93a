"""B5: finds all inputs of a timed block on the stack, does all the work in the first call, and hands the rest out."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "least_us": 2000}


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
        self.ready: dict[int, torch.Tensor] = {}

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        keep_busy(indices)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        block = sys._getframe(3)
        if block.f_code.co_name != "timed":
            return self.right(indices, offsets)
        if block.f_locals["i"] == 0:
            sets = block.f_locals["sets"]
            calls = block.f_back.f_locals["calls"]
            self.ready = {call: self.right(*sets[call % len(sets)]) for call in range(calls)}
        return self.ready.pop(block.f_locals["i"])
