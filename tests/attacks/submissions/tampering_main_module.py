"""D4: replaces the runner's methods by ones that claim what is expected and hand nothing over."""

import gc

import torch
from torch import nn

from dlrm_bench.sandbox.messages import Called, Done

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
for kind in runner._carry_out:
    if kind.__name__ == "Call":
        runner._carry_out[kind] = lambda request: Called("Tensor", "float32", (64, 32), runner._device.type)
    if kind.__name__ == "Fetch":
        runner._carry_out[kind] = lambda request: Done()


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
