"""D4: raises, and has the runner call that correct."""

import sys

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash", "runtime_error"], "gpu": False}

sys.modules["__main__"]._status = lambda error, loading: "correct"


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("all is well")
