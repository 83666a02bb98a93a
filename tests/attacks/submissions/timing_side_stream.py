"""C1: launches its work on a stream of its own and does not wait for it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": [
        "relative_l2",
        "worst_row",
        "centred_l2",
        "worst_element",
        "not_written",
        "not_finite",
        "output_aliased",
        "wrong_while_timed",
    ],
    "gpu": True,
}


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))
        self.stream = torch.cuda.Stream()

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        output = torch.empty_like(features)
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(20_000_000)
            output.copy_(self.right(features))
        return output
