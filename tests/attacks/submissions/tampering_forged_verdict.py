"""D5: sends the verdict that it would like to get."""

import gc

import torch
from torch import nn

from dlrm_bench.records import Verdict

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        channel = next(each for each in gc.get_objects() if type(each).__name__ == "Channel")
        channel.send(Verdict("correct", True, [], [], 0.0))
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
