"""B4: captures a CUDA graph of the first call and replays it over the inputs of that call."""

import math

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": True,
}


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))
        self.graph = None

    def right(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            self.given = features.clone()
            self.right(self.given)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answer = self.right(self.given)
        self.graph.replay()
        return self.answer.clone()
