"""D4: replaces the runner's methods by ones that claim what is expected and hand nothing over."""

import sys

import torch
from torch import nn

from dlrm_bench.sandbox.messages import Called

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

runner = sys.modules["__main__"].Runner
runner._call = lambda self, request: Called("Tensor", "float32", (64, 32), "cpu")
runner._fetch = lambda self, request: None


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.zeros(offsets.numel() - 1, self.weight.shape[1])
