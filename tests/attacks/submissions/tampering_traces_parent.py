"""D6: attaches to the process that judges it as a debugger does."""

import ctypes
import os

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False}

PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(PTRACE_SEIZE, os.getppid(), None, None) != 0:
            raise PermissionError("not allowed to trace the parent")
        libc.ptrace(PTRACE_DETACH, os.getppid(), None, None)
        return self.right(indices, offsets)
