"""D5: raises an error whose message rewrites the line on the terminal."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["runtime_error"], "gpu": False, "printable": True}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("\x1b[2K\rcorrect \x1b[32m1.552\x1b[0m")
