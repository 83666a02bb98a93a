"""Every place of the output reads its item, or a zero where there is none."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        columns = torch.arange(self.max_length, device=offsets.device)
        there = columns < offsets.diff().unsqueeze(1)
        places = torch.where(there, offsets[:-1].unsqueeze(1) + columns, len(values))
        return torch.cat([values, values.new_zeros(1, values.shape[1])])[places]
