"""fbgemm's table-batched embedding bags, holding tables of any width in the precision of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# fbgemm's kernels read four columns at a time.
COLUMN_MULTIPLE = 4
# fbgemm-gpu 1.6 leaves parts of the output unwritten where a row is wider than this (meta-pytorch/torchrec issue 3673).
WIDEST = 1024


class TableBatchedBags:
    """Pooled lookups in copies of some tables.

    fbgemm has no bfloat16 rows, so bfloat16 tables are copied into float16 ones of the same size. Wide tables are cut
    into blocks of columns, with a module for each block.
    """

    def __init__(self, tables: Sequence[Tensor], *, mean: bool = False):
        self.dtype = tables[0].dtype
        self.blocks: list[tuple[Any, list[int]]] = []
        for first in range(0, max(table.shape[1] for table in tables), WIDEST):
            columns = [table.detach()[:, first : first + WIDEST] for table in tables]
            module = split_tables([block.shape for block in columns], tables[0], mean=mean)
            for held, block in zip(module.split_embedding_weights(), columns, strict=True):
                held.copy_(pad_columns(block))
            self.blocks.append((module, [block.shape[1] for block in columns]))

    def __call__(self, indices: Tensor, offsets: Tensor, sample_weights: Tensor | None = None) -> Tensor:
        """Return [batch, sum of the widths] for table-major indices and offsets."""
        if len(self.blocks) == 1:
            [(module, dims)] = self.blocks
            return cut_columns(module(indices, offsets, sample_weights), dims).to(self.dtype)
        by_block = [split_columns(module(indices, offsets, sample_weights), dims) for module, dims in self.blocks]
        by_table = [piece for pieces in zip(*by_block, strict=True) for piece in pieces]
        return torch.cat(by_table, dim=1).to(self.dtype)


def split_tables(shapes: Sequence[torch.Size], like: Tensor, *, mean: bool = False, **optimizer: Any) -> Any:
    """Build fbgemm's module for tables of these shapes, with the precision and device of `like`.

    Args:
        shapes: rows and columns of each table; the columns are rounded up to what fbgemm takes.
        like: a tensor of the output's dtype, on the tables' device; fbgemm's CPU kernels give float32 for bfloat16.
        mean: average each bag, where the default is to sum it.
        optimizer: arguments of fbgemm's module for the update in the backward pass.

    Returns:
        A `SplitTableBatchedEmbeddingBagsCodegen`, its rows not set.
    """
    from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    on_cpu = like.device.type == "cpu"
    output = torch.float32 if on_cpu and like.dtype == torch.bfloat16 else like.dtype
    place = (EmbeddingLocation.HOST, ComputeDevice.CPU) if on_cpu else (EmbeddingLocation.DEVICE, ComputeDevice.CUDA)
    return SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, padded(dim), *place) for rows, dim in shapes],
        weights_precision=SparseType.FP32 if like.dtype == torch.float32 else SparseType.FP16,
        output_dtype=SparseType.from_dtype(output),
        pooling_mode=PoolingMode.MEAN if mean else PoolingMode.SUM,
        bounds_check_mode=BoundsCheckMode.NONE,
        stochastic_rounding=False,
        device=like.device,
        **{"optimizer": EmbOptimType.EXACT_SGD, **optimizer},
    )


def padded(dim: int) -> int:
    """Return the narrowest width that fbgemm takes and that holds `dim` columns."""
    return max(COLUMN_MULTIPLE, dim + -dim % COLUMN_MULTIPLE)


def pad_columns(rows: Tensor) -> Tensor:
    """Add zero columns up to a width that fbgemm takes."""
    return F.pad(rows, (0, padded(rows.shape[-1]) - rows.shape[-1]))


def split_columns(pooled: Tensor, dims: Sequence[int]) -> list[Tensor]:
    """Take the columns of each table, without its padding, out of an output where they stand side by side."""
    pieces = torch.split(pooled, [padded(dim) for dim in dims], dim=1)
    return [piece[:, :dim] for piece, dim in zip(pieces, dims, strict=True)]


def cut_columns(pooled: Tensor, dims: Sequence[int]) -> Tensor:
    """Undo `pad_columns` in an output where tables of these widths stand side by side."""
    if all(dim == padded(dim) for dim in dims):
        return pooled
    return torch.cat(split_columns(pooled, dims), dim=1)
