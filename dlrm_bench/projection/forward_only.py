"""Submissions go forward only: in training the original's operators go backward from what they computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class TableSums(torch.autograd.Function):
    """Sums over bags by a submission for all tables; backward, the sparse gradient that nn.EmbeddingBag gives."""

    @staticmethod
    def forward(ctx: Any, module: nn.Module, features: Any, *tables: torch.Tensor) -> torch.Tensor:
        """Return [batch, tables * dim]."""
        ctx.by_table = features.by_table
        ctx.shapes = [table.shape for table in tables]
        sums: torch.Tensor = module(features.values(), features.offsets())
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Return one sparse gradient a table."""
        pieces = torch.split(gradients[0], [shape[1] for shape in ctx.shapes], dim=1)
        parts = zip(ctx.by_table, pieces, ctx.shapes, strict=True)
        return None, None, *(sparse_gradient(lookups, piece, shape) for lookups, piece, shape in parts)


class BagSums(torch.autograd.Function):
    """The same for one table."""

    @staticmethod
    def forward(
        ctx: Any, module: nn.Module, indices: torch.Tensor, offsets: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        """Return [batch, dim]."""
        ctx.save_for_backward(indices, offsets)
        ctx.shape = table.shape
        sums: torch.Tensor = module(indices, offsets)
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Return the table's sparse gradient."""
        return None, None, None, sparse_gradient(ctx.saved_tensors, gradients[0], ctx.shape)


class RunAgain(torch.autograd.Function):
    """Any module's output by a submission; backward, the original runs forward once more for what it has to keep."""

    @staticmethod
    def forward(
        ctx: Any, module: nn.Module, original: nn.Module, x: torch.Tensor, *parameters: torch.Tensor
    ) -> torch.Tensor:
        """Return what the submission makes of `x`; `parameters` are the original's."""
        ctx.original = original
        ctx.save_for_backward(x)
        output: torch.Tensor = module(x)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Return the gradients of `x` and the original's parameters."""
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            inputs: Sequence[torch.Tensor] = [again, *ctx.original.parameters()]
            found = torch.autograd.grad(ctx.original(again), inputs, gradients[0])
        return None, None, *found


def sparse_gradient(lookups: Sequence[torch.Tensor], gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return a table's gradient: for each lookup the row of its bag.

    Args:
        lookups: its indices, [lookups] int64, and offsets, [batch + 1] int64.
        gradient: [batch, dim], by the sums.
        shape: of the table.
    """
    indices, offsets = lookups
    bags = torch.repeat_interleave(offsets.diff(), output_size=indices.numel())
    rows = gradient.index_select(0, bags)
    return torch.sparse_coo_tensor(indices.unsqueeze(0), rows, shape, check_invariants=False)
