"""Rows are scattered element by element; the output is a view that is laid out as if it were fresh."""

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
        lookups = offsets[::batch].diff()
        rows = indices + self.first_rows.repeat_interleave(lookups)
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        pooled = self.weight.new_zeros(tables * batch, dim, dtype=torch.float32)
        pooled.scatter_add_(0, bags.unsqueeze(1).expand(-1, dim), self.weight[rows].float())
        pooled = pooled.to(self.weight.dtype).view(tables, batch, dim).transpose(0, 1).contiguous()
        return pooled.as_strided((batch, tables * dim), (tables * dim, 1))
