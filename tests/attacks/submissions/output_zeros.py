"""A1: returns zeros, in the hope that the right values are small."""

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
