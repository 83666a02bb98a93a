"""C2: does all but one row, and leaves that to a thread."""

import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["not_written", "output_aliased", "worst_row", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        answer = self.right(indices, offsets)
        output = torch.zeros_like(answer)
        output[1:] = answer[1:]

        def finish() -> None:
            time.sleep(0.002)
            output[0] = answer[0]

        threading.Thread(target=finish).start()
        return output
