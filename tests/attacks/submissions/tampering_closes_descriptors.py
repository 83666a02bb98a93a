"""D5: closes every descriptor it has."""

import os

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        os.closerange(3, 256)
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
