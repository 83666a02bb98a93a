"""C9: sends the answer to a timed block before it begins, and holds the real one back."""

import gc
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "wrong_while_timed", "crash"], "gpu": False}


def found(kind: str) -> object:
    return next(each for each in gc.get_objects() if type(each).__name__ == kind)


runner, channel = found("Runner"), found("Channel")
names = type(runner).handle.__globals__


def early(request: object) -> None:
    sets = [[each.clone() for each in one] for one in runner._sets]
    channel.send(names["Timed"]([20.0 + i % 3 for i in range(request.calls)], 0, [0] * request.calls))
    runner._outputs = [runner._model(*sets[i % len(sets)]) for i in range(request.calls)]
    # The runner's own loop would answer a second time: this one goes on in its place.
    while True:
        channel.send(runner.handle(channel.receive(names["Request"])))


runner._carry_out[names["Time"]] = early


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
