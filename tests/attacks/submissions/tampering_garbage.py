"""D5: writes garbage to every descriptor it has."""

import contextlib
import os

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        for descriptor in range(256):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"\xff" * 64)
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
