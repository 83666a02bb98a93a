"""D5: takes memory without end."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["out_of_memory"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        held = []
        while True:
            held.append(torch.ones(1 << 26, device=indices.device))
