"""D1: replaces the functions and names that the reference uses, in its own process, and returns zeros."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

zeros = torch.zeros


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        F.embedding_bag = lambda indices, *args, **options: zeros(64, 32, device=indices.device)
        torch.randn = zeros
        torch.randint = lambda high, size, **options: zeros(*size)
        return zeros(offsets.numel() - 1, self.weight.shape[1], device=indices.device)
