"""A16: reads one run of neighbouring rows a bag, as if its indices were sorted and without gaps."""

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags = offsets.numel() - 1
        lengths = offsets.diff()
        places = torch.arange(indices.numel(), device=indices.device) - offsets[:-1].repeat_interleave(lengths)
        first = indices[offsets[:-1].clamp(max=max(0, indices.numel() - 1))] if indices.numel() else offsets[:-1]
        rows = (first.repeat_interleave(lengths) + places).clamp(max=self.weight.shape[0] - 1)
        numbers = torch.arange(bags, device=offsets.device).repeat_interleave(lengths)
        return self.weight.new_zeros(bags, self.weight.shape[1]).index_add_(0, numbers, self.weight[rows])
