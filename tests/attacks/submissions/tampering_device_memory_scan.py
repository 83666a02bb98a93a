"""D8: looks through freed GPU memory for an answer of the right size."""

import torch
from torch import nn

EXPECT = {
    "problem": 8,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element", "not_written", "not_finite"],
    "gpu": True,
}


class ModelNew(nn.Module):
    def __init__(self, *sizes: float):
        super().__init__()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        torch.cuda.empty_cache()
        found = [torch.empty_like(features) for _ in range(64)]
        return max(found, key=lambda each: float(each.nan_to_num(0, 0, 0).abs().clamp(max=10).sum())).clone()
