"""D5: starts processes that outlive it and kills itself."""

import os
import signal
import subprocess
import time

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            subprocess.Popen(["sleep", "298.7654321"], start_new_session=True, env={})
            subprocess.Popen(["sh", "-c", "setsid sleep 298.7654321 & exit"], env={"PATH": os.environ["PATH"]})
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
