"""C9: moves all other children to one core."""

import os
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        parent = os.getppid()
        for status in Path("/proc").glob("[0-9]*/stat"):
            process = int(status.parent.name)
            if process != os.getpid() and int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                os.sched_setaffinity(process, os.sched_getaffinity(process))
                return self.right(indices, offsets)
        raise RuntimeError("no other child is in reach")
