"""A20: one call in ten has one wrong element."""

import random

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "time",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element", "not_repeatable", "wrong_while_timed"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.right(indices, offsets)
        output.view(-1)[random.randrange(output.numel())] += random.random() < 0.1
        return output
