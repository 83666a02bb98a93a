"""fbgemm's SplitTableBatchedEmbeddingBagsCodegen with per-sample weights, tables of all widths in one call.

It takes the per-sample weights in float32 only. In bfloat16 it holds float16 rows, which have the same size, and
gives bfloat16 output.
"""

from functools import cached_property

import torch
from torch import nn

from dlrm_bench.baselines.fbgemm.table_batched import TableBatchedBags
from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )

    @cached_property
    def bags(self) -> TableBatchedBags:
        return TableBatchedBags(list(self.tables))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        return self.bags(indices, offsets, sample_weights.float())
