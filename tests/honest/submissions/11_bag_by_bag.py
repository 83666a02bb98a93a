"""Bag by bag, copied into a buffer of zeros, a copy of which is returned."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        padded = values.new_zeros(offsets.numel() - 1, self.max_length, values.shape[1])
        bounds = offsets.tolist()
        for b in (offsets.diff() > 0).nonzero().flatten().tolist():
            length = min(bounds[b + 1] - bounds[b], self.max_length)
            padded[b, :length] = values[bounds[b] : bounds[b] + length]
        return padded.clone()
