"""C2: leaves the work to a thread and returns before it is done."""

import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["not_written", "output_aliased", "relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def finish(self, output: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> None:
        time.sleep(0.005)
        output.copy_(F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1])
        threading.Thread(target=self.finish, args=(output, indices, offsets)).start()
        return output
