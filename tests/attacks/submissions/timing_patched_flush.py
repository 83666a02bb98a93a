"""C7: replaces the buffer that the clock overwrites to empty the L2 by a small one."""

import math

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 8, "stage": "harmless", "reasons": [], "gpu": True, "most_speedup": 1.3, "seconds": 60.0}

empty = torch.empty


def small(*sizes: object, **options: object) -> torch.Tensor:
    return empty(*(min(each, 16) if options.get("dtype") is torch.uint8 else each for each in sizes), **options)


torch.empty = small


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.right(features)
