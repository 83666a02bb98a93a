"""C3: replaces torch.Tensor's methods by ones that compute on the way, and returns zeros."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element"],
    "gpu": False,
}

PENDING: dict[int, object] = {}


def computing(method: object) -> object:
    def call(self: torch.Tensor, *args: object, **options: object) -> object:
        work = PENDING.pop(id(args[0] if args and isinstance(args[0], torch.Tensor) else self), None)
        if work is not None:
            self.add_(work())
        return method(self, *args, **options)

    return call


torch.Tensor.clone = computing(torch.Tensor.clone)
torch.Tensor.copy_ = computing(torch.Tensor.copy_)
torch.Tensor.contiguous = computing(torch.Tensor.contiguous)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
        PENDING[id(output)] = lambda: self.right(indices, offsets)
        return output
