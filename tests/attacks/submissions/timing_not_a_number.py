"""C4: reports times that are no numbers, which no comparison holds for."""

import gc

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "crash"], "gpu": False}


runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
honest = runner._stopwatch


def forged(*block: object) -> tuple[list[float], list[torch.Tensor]]:
    times, outputs, late = honest(*block)
    return times[:1] + [float("nan") for _ in times[1:]], outputs, late


runner._stopwatch = forged


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.right(indices, offsets)
