"""A26: answers with an object of a class of its own that is called Tensor."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["not_a_tensor"], "gpu": False}


class Tensor:
    def __init__(self, device: torch.device):
        self.dtype, self.shape, self.device = torch.float32, (64, 32), device


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> Tensor:
        return Tensor(indices.device)
