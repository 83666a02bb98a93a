"""D2: looks for a finished answer among all tensors of its process and returns the last one of the right shape."""

import gc

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        shape = (offsets.numel() - 1, self.weight.shape[1])
        found = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.shape == shape]
        return found[-1].clone() if found else self.weight.new_zeros(shape)
