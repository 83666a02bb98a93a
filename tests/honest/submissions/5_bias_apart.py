"""Codes are taken from their middle and scaled by the lookup; what is left of the biases is added up apart."""

import torch
from torch import nn
from torch.nn import functional as F


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
        scale, bias = self.rows[:, :4].flatten().view(torch.float16).view(-1, 2).float().unbind(dim=1)
        pooled = F.embedding_bag(
            indices,
            self.rows[:, 4:].float() - 127.5,
            offsets,
            mode="sum",
            per_sample_weights=scale[indices],
            include_last_offset=True,
        )
        left = bias.new_zeros(offsets.numel() - 1).index_add_(0, bags, (bias + 127.5 * scale)[indices])
        return (pooled + left.unsqueeze(1)).to(self.precision.dtype)
