"""D5: raises SystemExit(0) from its call."""

import sys

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        sys.exit(0)
