"""C4: works beside the flush as timing_beside_the_flush does, and not at all while its kernels are recorded."""

import gc

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "time", "reasons": ["time_not_explained", "wrong_while_timed"], "gpu": True}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
[recording] = [kind for kind in runner._carry_out if kind.__name__ == "Profile"]
record = runner._carry_out[recording]
recorded = False


def record_nothing(request: object) -> object:
    global recorded
    recorded = True
    return record(request)


runner._carry_out[recording] = record_nothing


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.side = torch.cuda.Stream()

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if recorded:
            return self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1])
        now = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(60_000)
            output = F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
        now.wait_stream(self.side)
        output.record_stream(now)
        return output
