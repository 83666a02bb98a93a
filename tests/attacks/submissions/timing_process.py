"""C2: has another process do the work, whose answer is ready by the next call."""

import itertools
import os

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["not_written", "output_aliased", "crash", "relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = torch.zeros(offsets.numel() - 1, self.weight.shape[1]).share_memory_()
        if os.fork() == 0:
            rows = [self.weight[indices[a:b]].sum(dim=0) for a, b in itertools.pairwise(offsets)]
            output.copy_(torch.stack(rows))
            os._exit(0)
        return output
