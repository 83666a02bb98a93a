"""torchrec's LowRankCrossNet, with this module's parameters in place of its own: the library does the products."""

import math
from functools import cached_property

import torch
from torch import nn

from dlrm_bench.libraries import require_torchrec

require_torchrec()


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))

    @cached_property
    def net(self) -> nn.Module:
        from torchrec.modules.crossnet import LowRankCrossNet  # type: ignore[import-untyped]

        rank, features = self.v[0].shape
        with torch.device("meta"):
            net: nn.Module = LowRankCrossNet(in_features=features, num_layers=len(self.v), low_rank=rank)
        net.V_kernels, net.W_kernels, net.bias = self.v, self.w, self.b
        return net

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        crossed: torch.Tensor = self.net(features)
        return crossed
