"""D3: replaces every function that compares tensors by one that says yes, and returns zeros."""

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

for name in ("allclose", "equal", "isclose", "eq"):
    setattr(torch, name, lambda *args, **options: True)
    setattr(torch.Tensor, name, lambda *args, **options: True)
torch.testing.assert_close = lambda *args, **options: None
torch.linalg.vector_norm = lambda *args, **options: torch.zeros(())


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
