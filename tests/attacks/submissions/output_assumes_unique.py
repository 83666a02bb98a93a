"""A16: counts a row that comes twice in a bag once."""

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
        rows, bags = self.weight.shape[0], offsets.numel() - 1
        wanted = self.weight.new_zeros(bags, rows)
        numbers = torch.arange(bags, device=offsets.device).repeat_interleave(offsets.diff())
        wanted[numbers, indices] = 1
        return wanted @ self.weight
