"""The counts of each row in each bag are multiplied by the gradient."""

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
        batch, rows = offsets.numel() - 1, len(self.weight)
        bags = torch.arange(batch, device=offsets.device).repeat_interleave(offsets.diff())
        ones = torch.ones_like(indices, dtype=torch.float32)
        counts = ones.new_zeros(rows * batch).index_add_(0, indices * batch + bags, ones)
        total = counts.view(rows, batch) @ gradient.float()
        momentum = self.momentum + torch.linalg.vector_norm(total, dim=1).square() / total.shape[1]
        step = self.learning_rate * total / (momentum.sqrt() + self.eps).unsqueeze(1)
        return torch.hstack([self.weight - step, momentum.unsqueeze(1)]).to(self.weight.dtype)
