"""A9: leaves out the rows whose norm is a small part of the largest one's."""

import torch
from torch import nn

EXPECT = {
    "problem": 7,
    "stage": "check",
    "reasons": ["worst_row", "worst_element", "relative_l2", "centred_l2"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.pairs = torch.tril_indices(features + 1, features + 1, offset=-1)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        vectors = torch.cat([dense.unsqueeze(1), sparse], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        output = torch.cat([dense, products], dim=1)
        norms = output.norm(dim=1, keepdim=True)
        return output * (norms > 0.3 * norms.max())
