"""Every value is given the place of its key, and a stable sort by place moves it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        places = permutation.argsort().repeat_interleave(lengths.sum(dim=1))
        return values[places.argsort(stable=True)]
