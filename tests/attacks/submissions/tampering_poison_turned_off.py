"""D4: turns the filling of fresh memory off and leaves the last row to whatever is there."""

import contextlib
import gc

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["not_written", "relative_l2", "worst_row", "centred_l2", "worst_element", "not_finite"],
    "gpu": False,
}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
type(runner).handle.__globals__["poisoned"] = lambda device, pattern: contextlib.nullcontext()


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1])
        output[:-1] = self.right(indices, offsets)[:-1]
        return output
