"""D2: finds the runner among all objects and clears what it has kept of earlier calls."""

import gc

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element", "runtime_error", "crash"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
        for output in [*runner._outputs, *runner._as_returned]:
            output.fill_(float("nan"))
        runner._outputs = [self.weight.new_zeros(64, 32)] * 3
        runner._as_returned = [self.weight.new_zeros(64, 32)] * 3
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
