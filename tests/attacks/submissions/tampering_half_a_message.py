"""D5: begins a message and never ends it."""

import os
import sys
import time

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["timeout"], "gpu": False, "seconds": 5}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        os.write(int(sys.argv[1]), b"\x00\x10\x00\x00half")
        time.sleep(600)
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
