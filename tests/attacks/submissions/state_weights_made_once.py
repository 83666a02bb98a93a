"""B3: makes something of the weights at the first call and never reads them again, where they change between calls."""

import torch
from torch import nn

EXPECT = {"problem": 6, "stage": "check", "reasons": ["stale_weights"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate, self.eps = learning_rate, eps
        self.made = None

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if self.made is None:
            self.made = self.weight.float().clone(), self.momentum.float().clone()
        weight, momentum = self.made
        lookups = gradient.float().repeat_interleave(offsets.diff(), dim=0, output_size=indices.numel())
        total = torch.zeros_like(weight).index_add_(0, indices, lookups)
        momentum = momentum + total.square().mean(dim=1)
        step = self.learning_rate * total / (momentum.sqrt() + self.eps).unsqueeze(1)
        return torch.cat([weight - step, momentum.unsqueeze(1)], dim=1).to(self.weight.dtype)
