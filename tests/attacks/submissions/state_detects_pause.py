"""B6: takes calls that follow on one another quickly for timed ones, and returns zeros in them."""

import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["wrong_while_timed"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.returned = 0.0

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        hurried = time.perf_counter() - self.returned < 50e-6
        output = self.weight.new_zeros(64, self.weight.shape[1]) if hurried else self.right(indices, offsets)
        self.returned = time.perf_counter()
        return output
