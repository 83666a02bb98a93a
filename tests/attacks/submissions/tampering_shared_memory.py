"""D5: takes more memory than it may in the form of shared pages."""

import mmap

import torch
from torch import nn
from torch.nn import functional as F

# Beside a GPU its memory is what is bounded, and the host's is not.
EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["out_of_memory", "crash"],
    "gpu": False,
    "cpu": True,
    "memory_mib": 512,
}

HELD: list[mmap.mmap] = []


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        while len(HELD) < 8:
            HELD.append(mmap.mmap(-1, 128 << 20))
            HELD[-1].write(b"x" * (128 << 20))
        return self.right(indices, offsets)
