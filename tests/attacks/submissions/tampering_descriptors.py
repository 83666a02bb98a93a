"""D5: opens files without end."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False}

HELD = []


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        while True:
            HELD.append(open("/dev/null"))  # noqa: SIM115
