"""Each table is multiplied by the matrix of its weights, in which lookups of one row in one bag are added first."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        batch = (offsets.numel() - 1) // len(self.tables)
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff()) % batch
        cuts = offsets[::batch].diff().tolist()
        output = sample_weights.new_empty(batch, sum(table.shape[1] for table in self.tables))
        start = 0
        for table, some, factors, where in zip(
            self.tables, indices.split(cuts), sample_weights.split(cuts), bags.split(cuts), strict=True
        ):
            factor = table.new_zeros(batch, len(table), dtype=torch.float32)
            factor.index_put_((where, some), factors.float(), accumulate=True)
            output[:, start : start + table.shape[1]] = torch.einsum("br,rd->bd", factor, table.float())
            start += table.shape[1]
        return output
