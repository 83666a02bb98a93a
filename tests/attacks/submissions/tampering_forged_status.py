"""D4: raises, and has the runner call that correct."""

import gc

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash", "runtime_error"], "gpu": False}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
type(runner).handle.__globals__["_status"] = lambda error, loading: "correct"


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("all is well")
