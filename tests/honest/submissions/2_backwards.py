"""The lookups are added in the opposite order, and each row goes straight to its place in the output."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        tables, dim = self.first_rows.numel(), self.weight.shape[1]
        batch = (offsets.numel() - 1) // tables
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        rows = indices + self.first_rows[bags // batch]
        places = bags % batch * tables + bags // batch
        pooled = self.weight.new_zeros(batch * tables, dim, dtype=torch.float32)
        pooled.index_add_(0, places.flip(0), self.weight[rows.flip(0)].float())
        return pooled.view(batch, tables * dim).to(self.weight.dtype)
