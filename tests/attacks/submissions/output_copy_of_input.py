"""A3: returns a copy of its input, which the layers only correct."""

import torch
from torch import nn

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, *sizes: float):
        super().__init__()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.clone()
