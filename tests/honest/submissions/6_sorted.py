"""Lookups are sorted by row, and each run of one row is added up and applied to that row alone."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate = learning_rate
        self.eps = eps

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        order = indices.argsort(stable=True)
        rows, runs = indices[order].unique_consecutive(return_inverse=True)
        lookups = gradient.float()[bags[order]]
        total = lookups.new_zeros(len(rows), gradient.shape[1]).index_add_(0, runs, lookups)
        output = torch.cat([self.weight, self.momentum.unsqueeze(1)], dim=1)
        momentum = self.momentum.float()[rows] + total.square().mean(dim=1)
        step = total * (self.learning_rate / (momentum.sqrt() + self.eps)).unsqueeze(1)
        output[rows, :-1] = (self.weight.float()[rows] - step).to(output.dtype)
        output[rows, -1] = momentum.to(output.dtype)
        return output
