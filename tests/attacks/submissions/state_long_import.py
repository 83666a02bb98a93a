"""B7: does work without end when it is imported."""

import time

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["timeout"], "gpu": False, "seconds": 5}

time.sleep(600)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
