"""A16: numbers the bags by counting changes, as if none were empty."""

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
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        numbers = torch.cat([bags.new_zeros(1), (bags.diff() > 0).cumsum(0)])[: bags.numel()]
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1]).index_add_(
            0, numbers, self.weight[indices]
        )
