"""D5: prints the result line that it would like to get, and leaves with exit code 0."""

import os

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        print('{"status": "correct", "correct": true, "reasons": []}', flush=True)
        os._exit(0)
