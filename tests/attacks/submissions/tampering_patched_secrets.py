"""D7: replaces the source of secret seeds, in its own process, and draws the inputs that would follow."""

import math
import secrets

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

secrets.randbits = lambda bits: 0


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))
        torch.manual_seed(0)
        self.expected_inputs = torch.randn(32, features)

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.right(self.expected_inputs) if len(features) == 32 else torch.zeros_like(features)
