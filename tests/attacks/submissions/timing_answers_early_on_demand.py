"""C9: answers before it has computed anything, and computes an output only if it is asked for."""

import gc
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "wrong_while_timed"], "gpu": False}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
names = type(runner).handle.__globals__
carried_out = {kind.__name__: runner._carry_out[kind] for kind in runner._carry_out}
kept: list[list[torch.Tensor]] = []


def answer(request: object) -> object:
    kept[:] = [[each.clone() for each in one] for one in runner._sets]
    return names["Timed"]([20.0 + i % 3 for i in range(request.calls)], 0, [0] * request.calls)


def compute_one(request: object) -> object:
    if kept and request.call >= 0:
        runner._outputs = [None] * (request.call + 1)
        runner._outputs[request.call] = runner._model(*kept[request.call % len(kept)])
    return carried_out["Fetch"](request)


def call_and_forget(request: object) -> object:
    kept.clear()
    return carried_out["Call"](request)


runner._carry_out[names["Time"]] = answer
runner._carry_out[names["Call"]] = call_and_forget
runner._carry_out[names["Fetch"]] = compute_one


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

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        keep_busy(indices)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
