"""D8: maps the shared memory a second time and writes into its input from a thread when the call is over."""

import mmap
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["input_changed"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        descriptor = int(sys.argv[2])
        memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)

        def write() -> None:
            for _ in range(1000):
                memory[0] = (memory[0] + 1) % 256
                time.sleep(1e-5)

        output = self.right(indices, offsets)
        threading.Thread(target=write, daemon=True).start()
        time.sleep(0.001)
        return output
