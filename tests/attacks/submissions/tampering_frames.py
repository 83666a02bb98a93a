"""D2: looks on the stack for anything that is called expected, answer or oracle."""

import sys

import torch
from torch import nn

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
        frame = sys._getframe()
        while frame is not None:
            for names in (frame.f_locals, frame.f_globals):
                for name in ("expected", "answer", "oracle", "reference", "trial", "yardstick"):
                    if isinstance(names.get(name), torch.Tensor):
                        return names[name]
            frame = frame.f_back
        return output
