"""A19: returns its input itself where that is right, which is when there is one key."""

import torch
from torch import nn

EXPECT = {"problem": 10, "stage": "check", "reasons": ["output_aliased"], "gpu": False}


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        if len(lengths) == 1:
            return values
        runs = values.split(lengths.sum(dim=1).tolist())
        return torch.cat([runs[key] for key in permutation.tolist()])
