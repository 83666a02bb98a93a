"""B6: skips three timed calls of five once the first block is over, so that the median call costs nothing."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["wrong_while_timed", "time_not_explained"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.blocks = 0
        self.last = None

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        block = sys._getframe(3)
        if block.f_code.co_name == "timed":
            self.blocks += block.f_locals["i"] == 0
            if self.blocks > 5 and block.f_locals["i"] % 5 < 3:
                return self.last
        self.last = self.right(indices, offsets)
        return self.last
