"""D5: ignores every signal that can be ignored, and hangs."""

import contextlib
import signal
import time

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["timeout"], "gpu": False, "seconds": 5}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        for number in signal.valid_signals():
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
