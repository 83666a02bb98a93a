"""A18: puts the indices of each bag in order where they lie, but only while it is being timed."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["input_changed", "wrong_while_timed"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if sys._getframe(3).f_code.co_name == "timed":
            bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
            indices.copy_(indices[(bags * len(self.weight) + indices).argsort()])
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
