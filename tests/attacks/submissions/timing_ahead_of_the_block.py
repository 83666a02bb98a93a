"""C9: computes a quarter of a timed block's answers when the block is asked for, before a clock around a call runs."""

import gc
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained"], "gpu": False}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
carried_out = {kind.__name__: runner._carry_out[kind] for kind in runner._carry_out}
answers: dict[int, torch.Tensor] = {}


def compute_ahead(request: object) -> object:
    answers.clear()
    for each in runner._sets[::4]:
        answers[each[0].data_ptr()] = runner._model.compute(*each)
    reply = carried_out["Time"](request)
    answers.clear()
    return reply


[timing] = [kind for kind in runner._carry_out if kind.__name__ == "Time"]
runner._carry_out[timing] = compute_ahead


def keep_busy(indices: torch.Tensor) -> None:
    """Take two milliseconds of the device, or more: a GPU runs below 2 GHz."""
    if indices.is_cuda:
        torch.cuda._sleep(5_000_000)
    else:
        time.sleep(0.002)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    @torch.no_grad()
    def compute(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        keep_busy(indices)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        known = answers.get(indices.data_ptr())
        return self.compute(indices, offsets) if known is None else known.clone()
