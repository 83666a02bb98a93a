"""A5: writes all rows but the last."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["not_written"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1])
        output[:-1] = self.right(indices, offsets)[:-1]
        return output
