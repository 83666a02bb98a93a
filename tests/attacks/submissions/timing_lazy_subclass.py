"""C3: returns a tensor of a class that computes when somebody compares it."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["not_a_tensor"], "gpu": False}


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(
        cls, function: object, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        with torch._C.DisableTorchFunctionSubclass():
            for each in args:
                if isinstance(each, Later) and each.work is not None:
                    work, each.work = each.work, None
                    each.copy_(work())
            return function(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        output = self.weight.new_empty(offsets.numel() - 1, self.weight.shape[1]).as_subclass(Later)
        output.work = lambda: self.right(indices, offsets)
        return output
