"""B5: does the same with work of microseconds, which the cost of asking for it may hide."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": False, "most_speedup": 3.0}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.ready: dict[int, torch.Tensor] = {}

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
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
