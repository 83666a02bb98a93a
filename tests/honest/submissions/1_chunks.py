"""A float32 copy of the table is kept, lookups are taken 1000 at a time, and the answer is copied out of a buffer."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.table: torch.Tensor | None = None
        self.buffer = torch.empty(0)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = self.weight.detach().float()
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        if len(self.buffer) != offsets.numel() - 1:
            self.buffer = self.table.new_empty(offsets.numel() - 1, self.weight.shape[1])
        self.buffer.zero_()
        for some, where in zip(indices.split(1000), bags.split(1000), strict=True):
            self.buffer.index_add_(0, where, self.table[some])
        return self.buffer.to(self.weight.dtype, copy=True)
