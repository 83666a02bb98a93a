"""D3: replaces the judge itself, in its own process."""

import torch
from torch import nn

from dlrm_bench.correctness import bench, compare, judge, metrics, probes

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

compare.compare = bench.compare = probes.compare = lambda *args: ([], None)
judge._judge_case = lambda *args: None
judge.fresh_seed = lambda: 0
metrics.Yardstick.measure = lambda self, output: metrics.Metrics(0.0, 0.0, 0.0, 0.0)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
