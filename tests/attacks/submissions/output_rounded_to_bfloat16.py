"""A13: rounds the right answer to bfloat16."""

import torch
from torch import nn

EXPECT = {
    "problem": 7,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.pairs = torch.tril_indices(features + 1, features + 1, offset=-1)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        vectors = torch.cat([dense.unsqueeze(1), sparse], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.cat([dense, products], dim=1).bfloat16().float()
