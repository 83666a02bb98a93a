import math

import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES = 3456
RANK = 512
LAYERS = 3
BATCH = 16_384
BIAS_SCALE = 0.5
INPUT_SCALE = 1.0


class Model(nn.Module):
    """Cross layers with low-rank weights: x_next = x_0 * (W (V x) + b) + x."""

    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """
        features: [batch, features], x_0
        returns: [batch, features], x after the last layer
        """
        x = features
        for v, w, b in zip(self.v, self.w, self.b):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x


def get_init_inputs():
    return [FEATURES, RANK, LAYERS, BIAS_SCALE]


def get_inputs():
    return [torch.randn(BATCH, FEATURES) * INPUT_SCALE]
