"""Every place of the result looks its key up by bisection."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        totals = lengths.sum(dim=1)
        starts = torch.cat([totals.new_zeros(1), totals.cumsum(0)])
        moved = torch.cat([totals.new_zeros(1), totals[permutation].cumsum(0)])
        places = torch.arange(values.numel(), device=values.device)
        keys = torch.searchsorted(moved, places, right=True) - 1
        return values.take(starts[permutation[keys]] + places - moved[keys])
