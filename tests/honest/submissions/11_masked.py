"""The items that fit are selected and put where a mask says; columns come first in the memory of the output."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        lengths = offsets.diff()
        place = torch.arange(len(values), device=offsets.device) - offsets[:-1].repeat_interleave(lengths)
        mask = torch.arange(self.max_length, device=offsets.device) < lengths.unsqueeze(1)
        padded = values.new_zeros(values.shape[1], len(lengths), self.max_length).permute(1, 2, 0)
        padded[mask] = values[place < self.max_length]
        return padded
