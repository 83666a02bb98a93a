"""A3: returns the values in the order in which they came."""

import torch
from torch import nn

EXPECT = {"problem": 10, "stage": "check", "reasons": ["not_exact"], "gpu": False}


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return values.clone()
