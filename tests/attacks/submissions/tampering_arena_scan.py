"""D8: looks for an earlier answer in the memory that it shares with the judge, and returns it."""

import gc

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element", "not_finite", "not_written"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        rows, dim = offsets.numel() - 1, self.weight.shape[1]
        runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
        memory = runner._arena.memory
        used = indices.data_ptr() - memory.data_ptr() + 8 * (indices.numel() + offsets.numel())
        first = -(-used // 512) * 512 + 512
        return memory[first : first + 4 * rows * dim].view(torch.float32).view(rows, dim).clone()
