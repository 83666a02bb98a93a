"""Codes are taken from their middle, so that scale and bias nearly cancel before anything is added."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, value_scale: float):
        super().__init__()
        scale = (0.5 + torch.rand(rows)) * value_scale / 74.0
        bias = 0.1 * value_scale * torch.randn(rows) - 127.5 * scale
        header = torch.stack([scale, bias], dim=1).half().view(torch.uint8)
        codes = torch.randint(256, (rows, dim), dtype=torch.uint8)
        self.register_buffer("rows", torch.cat([header, codes], dim=1))
        self.register_buffer("precision", torch.empty(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags = torch.arange(offsets.numel() - 1, device=offsets.device).repeat_interleave(offsets.diff())
        rows = self.rows.index_select(0, indices)
        scale, bias = rows[:, :4].flatten().view(torch.float16).view(-1, 2).float().split(1, dim=1)
        values = torch.addcmul(bias + 128 * scale, rows[:, 4:].float() - 128, scale)
        pooled = values.new_zeros(offsets.numel() - 1, values.shape[1])
        for some, where in zip(values.split(512), bags.split(512), strict=True):
            pooled.index_add_(0, where, some)
        return pooled.to(self.precision.dtype)
