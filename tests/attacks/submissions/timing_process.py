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
        # A forked process has no GPU: it works on the host's memory, from which the answer is copied, too early.
        output = torch.zeros(offsets.numel() - 1, self.weight.shape[1], device="cpu").share_memory_()
        table, rows, bounds = self.weight.cpu(), indices.cpu(), offsets.tolist()
        if os.fork() == 0:
            output.copy_(torch.stack([table[rows[a:b]].sum(dim=0) for a, b in itertools.pairwise(bounds)]))
            os._exit(0)
        return output.to(indices.device)
