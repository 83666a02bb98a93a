"""B6: updates its momentum in place, so that every call starts from another state."""

import torch
from torch import nn

EXPECT = {
    "problem": 6,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate = learning_rate
        self.eps = eps

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        lookups = gradient.repeat_interleave(offsets.diff(), dim=0, output_size=indices.numel())
        total = torch.zeros_like(self.weight).index_add_(0, indices, lookups)
        self.momentum += total.square().mean(dim=1)
        step = self.learning_rate * total / (self.momentum.sqrt() + self.eps).unsqueeze(1)
        return torch.cat([self.weight - step, self.momentum.unsqueeze(1)], dim=1)
