"""C9: sends the answer to a timed block before it begins, and holds the real one back."""

import gc
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.sandbox.messages import Channel, Timed

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "wrong_while_timed", "crash"], "gpu": False}

send = Channel.send


def early(self: object, request: object) -> Timed:
    sets = [[self._argument(each).clone() for each in one] for one in request.sets]
    channel = next(each for each in gc.get_objects() if type(each) is Channel)
    send(channel, Timed([20.0 + i % 3 for i in range(request.calls)], 21.0 * request.calls))
    self._outputs = [self._model(*sets[i % len(sets)]) for i in range(request.calls)]
    return Timed([], 0.0)


def all_but_times(self: Channel, message: object) -> None:
    if type(message) is not Timed:
        send(self, message)


sys.modules["__main__"].Runner._time = early
Channel.send = all_but_times


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
