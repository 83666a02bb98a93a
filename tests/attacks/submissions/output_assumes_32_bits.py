"""A16: keeps the ids in 32 bits."""

import torch
from torch import nn

EXPECT = {"problem": 10, "stage": "check", "reasons": ["not_exact"], "gpu": False}


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        runs = values.int().split(lengths.sum(dim=1).tolist())
        return torch.cat([runs[key] for key in permutation.tolist()]).long()
