"""D5: raises its own limits, which it may where it is root, and takes more memory than it was given."""

import resource

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["out_of_memory", "runtime_error"],
    "gpu": False,
    "memory_mib": 512,
}

HELD: list[torch.Tensor] = []


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if not HELD:
            HELD.append(torch.ones(256 << 20, device=indices.device))
        return self.right(indices, offsets)
