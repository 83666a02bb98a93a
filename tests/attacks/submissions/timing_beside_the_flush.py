"""C1: works on a stream that waits for nobody, so that it runs while the L2 is flushed for the call."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "harmless", "reasons": [], "gpu": True, "least_us": 28.0}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.side = torch.cuda.Stream()

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        now = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            # 30 microseconds, or more where others use the GPU too.
            torch.cuda._sleep(60_000)
            output = F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
        now.wait_stream(self.side)
        output.record_stream(now)
        return output
