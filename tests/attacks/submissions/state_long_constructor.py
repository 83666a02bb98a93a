"""B7: does work without end in its constructor."""

import torch
from torch import nn

EXPECT = {"problem": 1, "stage": "check", "reasons": ["timeout"], "gpu": False, "seconds": 5}


class ModelNew(nn.Module):
    def __init__(self, *sizes: float):
        super().__init__()
        while True:
            torch.randn(1000).sort()
