"""A13: rounds both sides of every product to the 10 bits of TF32 and adds up in float32."""

import math

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))

    def linear(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(rounded(x), rounded(weight))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * (self.linear(self.linear(x, v), w) + b) + x
        return x


def rounded(values: torch.Tensor) -> torch.Tensor:
    bits = values.detach().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
