"""fbgemm's SplitTableBatchedEmbeddingBagsCodegen with mean pooling, all tables in one call, forward only.

In bfloat16 it holds float16 rows, which have the same size, and gives bfloat16 output.
"""

from functools import cached_property

import torch
from torch import nn

from dlrm_bench.baselines.fbgemm.table_batched import TableBatchedBags
from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.rows = rows

    @cached_property
    def bags(self) -> TableBatchedBags:
        return TableBatchedBags(torch.split(self.weight, self.rows), mean=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.bags(indices, offsets)
