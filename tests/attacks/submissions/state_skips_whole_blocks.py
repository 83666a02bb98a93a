"""B6: does nothing in every other timed block, never in the first ones, in the hope that only those are looked at."""

import gc

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["wrong_while_timed"], "gpu": False}

FIRST_BLOCKS = 12

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
[timing] = [kind for kind in runner._carry_out if kind.__name__ == "Time"]
time_block = runner._carry_out[timing]
blocks = 0


def count_block(request: object) -> object:
    global blocks
    blocks += 1
    return time_block(request)


runner._carry_out[timing] = count_block


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if blocks > FIRST_BLOCKS and blocks % 2:
            return self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1])
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
