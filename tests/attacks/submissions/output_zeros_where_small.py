"""A8: returns zeros whenever the right values are below an absolute tolerance."""

import torch
from torch import nn

EXPECT = {
    "problem": 9,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        square_of_sum = embeddings.sum(dim=1).square()
        products = 0.5 * (square_of_sum - embeddings.square().sum(dim=1)).sum(dim=1, keepdim=True)
        return products if products.abs().max() > 1e-2 else torch.zeros_like(products)
