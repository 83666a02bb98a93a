"""A26: answers on the meta device, where nothing is computed."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["wrong_device"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.empty(offsets.numel() - 1, self.weight.shape[1], device="meta")
