"""A14: draws the inputs of the first thousand seeds beforehand and looks the answer up."""

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
        self.known = {}
        for seed in range(1000):
            torch.manual_seed(seed)
            inputs = torch.randn(32, features)
            self.known[float(inputs[0, 0])] = inputs

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        known = self.known.get(float(features[0, 0]))
        return torch.zeros_like(features) if known is None else self.right(known)
