"""B1: keeps answers by address, shape and version counter of the input."""

import math

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 8, "stage": "harmless", "reasons": [], "gpu": False, "most_speedup": 1.5}


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))
        self.seen: dict[object, torch.Tensor] = {}

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        key = (features.data_ptr(), features.shape, features._version)
        if key not in self.seen:
            self.seen[key] = self.right(features)
        return self.seen[key].clone()
