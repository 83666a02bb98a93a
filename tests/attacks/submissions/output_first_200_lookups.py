"""A6: averages the first 200 lookups of a bag and leaves the others out."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 3,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        tables = self.first_rows.numel()
        batch = (offsets.numel() - 1) // tables
        lengths = offsets.diff()
        places = torch.arange(indices.numel(), device=indices.device) - offsets[:-1].repeat_interleave(lengths)
        rows = indices + self.first_rows.repeat_interleave(offsets[::batch].diff())
        kept = F.pad(lengths.clamp(max=200).cumsum(0), (1, 0))
        pooled = F.embedding_bag(rows[places < 200], self.weight, kept, mode="mean", include_last_offset=True)
        return pooled.view(tables, batch, -1).transpose(0, 1).reshape(batch, -1)
