"""A25: divides by the length of empty bags."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 3, "stage": "check", "reasons": ["not_finite"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        tables = self.first_rows.numel()
        batch = (offsets.numel() - 1) // tables
        rows = indices + self.first_rows.repeat_interleave(offsets[::batch].diff())
        pooled = F.embedding_bag(rows, self.weight, offsets, mode="sum", include_last_offset=True)
        pooled /= offsets.diff().unsqueeze(1)
        return pooled.view(tables, batch, -1).transpose(0, 1).reshape(batch, -1)
