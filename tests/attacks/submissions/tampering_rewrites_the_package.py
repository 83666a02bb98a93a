"""D7: rewrites the problem's file, so that the next child reads another one."""

import os
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.paths import problems_dir

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        for path in Path(problems_dir()).rglob("*.py"):
            os.close(os.open(path, os.O_WRONLY))
        return self.right(indices, offsets)
