"""D5: raises an error that cannot be printed."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error", "crash"], "gpu": False}


class Silent(Exception):
    def __str__(self) -> str:
        raise self


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        raise Silent
