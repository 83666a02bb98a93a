"""B6: is right for the first 92 calls of all, about as many as come before the clock runs."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["wrong_while_timed"], "gpu": False}

CALLS = [0]


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        CALLS[0] += 1
        output = self.right(indices, offsets)
        return output if CALLS[0] <= 92 else torch.zeros_like(output)
