"""A26: answers with nothing."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["not_a_tensor"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> None:
        return None
