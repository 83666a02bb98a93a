"""D5: sends a forged answer over the channel from within its call."""

import gc

import torch
from torch import nn

from dlrm_bench.sandbox.messages import Called, Done

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["crash", "relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        channel = next(each for each in gc.get_objects() if type(each).__name__ == "Channel")
        channel.send(Called("Tensor", "float32", (64, 32), indices.device.type))
        channel.send(Done())
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
