"""A17: leaves the padding to whatever was in memory."""

import torch
from torch import nn

EXPECT = {"problem": 11, "stage": "check", "reasons": ["not_written"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        padded = values.new_empty(offsets.numel() - 1, self.max_length, values.shape[1])
        for row, bag in zip(padded, values.split(offsets.diff().tolist()), strict=True):
            row[: len(bag)] = bag[: self.max_length]
        return padded
