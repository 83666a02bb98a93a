"""Every row is added to its bag's in float32, in the order in which the lookups come."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        pooled = self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1], dtype=torch.float32)
        return pooled.index_add_(0, bags, self.weight[indices].float()).to(self.weight.dtype)
