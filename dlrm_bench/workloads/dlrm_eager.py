"""A DLRM in eager PyTorch, an nn.EmbeddingBag a table, as facebookresearch/dlrm builds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.workloads.recommenders import RecommenderConfig


@dataclass(frozen=True)
class TableFeatures:
    """The lookups of all tables, and those of each as the loader hands them to its nn.EmbeddingBag.

    Attributes:
        indices: see `Features.values`.
        starts: see `Features.offsets`.
        by_table: for each table its indices, a view, and its offsets, [batch + 1].
    """

    indices: torch.Tensor
    starts: torch.Tensor
    by_table: list[tuple[torch.Tensor, torch.Tensor]]

    def values(self) -> torch.Tensor:
        """Return the indices of all tables."""
        return self.indices

    def offsets(self) -> torch.Tensor:
        """Return the offsets of all tables."""
        return self.starts


class EmbeddingBags(nn.Module):
    """One nn.EmbeddingBag a table, called one after another; the tables lie one below the other in memory."""

    def __init__(self, weight: torch.Tensor, rows: Sequence[int], sparse: bool):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag.from_pretrained(table, freeze=False, mode="sum", sparse=sparse, include_last_offset=True)
            for table in torch.split(weight, list(rows))
        )

    def forward(self, features: TableFeatures) -> list[torch.Tensor]:
        """Return [batch, dim] a table."""
        return [bag(*lookups) for bag, lookups in zip(self.bags, features.by_table, strict=True)]


class DotInteraction(nn.Module):
    """The dense vector, then the dot products of every pair of vectors, row by row below the diagonal."""

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self, tables: int):
        super().__init__()
        rows, columns = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense_features: torch.Tensor, sparse_features: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return [batch, dim + (tables + 1) * tables / 2]."""
        batch, dim = dense_features.shape
        vectors = torch.cat([dense_features, *sparse_features], dim=1).view(batch, -1, dim)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return torch.cat([dense_features, products[:, self.rows, self.columns]], dim=1)


class CrossNet(nn.Module):
    """Low-rank cross layers: x_next = x_0 * (W (V x) + b) + x."""

    def __init__(self, features: int, rank: int, layers: int):
        super().__init__()
        self.v = nn.ParameterList(nn.init.xavier_normal_(torch.empty(rank, features)) for _ in range(layers))
        self.w = nn.ParameterList(nn.init.xavier_normal_(torch.empty(features, rank)) for _ in range(layers))
        self.b = nn.ParameterList(torch.zeros(features) for _ in range(layers))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return [batch, features]."""
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = features * F.linear(F.linear(x, v), w, b) + x
        return x


class CrossInteraction(nn.Module):
    """Cross layers over the dense vector and those of all tables, side by side."""

    def __init__(self, crossnet: nn.Module):
        super().__init__()
        self.crossnet = crossnet

    def forward(self, dense_features: torch.Tensor, sparse_features: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return [batch, (tables + 1) * dim]."""
        crossed: torch.Tensor = self.crossnet(torch.cat([dense_features, *sparse_features], dim=1))
        return crossed


class Dlrm(nn.Module):
    """Two MLPs, the tables, and an interaction between them."""

    def __init__(self, sparse_arch: nn.Module, dense_arch: nn.Module, inter_arch: nn.Module, over_arch: nn.Module):
        super().__init__()
        self.sparse_arch = sparse_arch
        self.dense_arch = dense_arch
        self.inter_arch = inter_arch
        self.over_arch = over_arch

    def forward(self, dense_features: torch.Tensor, sparse_features: TableFeatures) -> torch.Tensor:
        """Return the logits, [batch, 1]."""
        dense, sparse = self.dense_arch(dense_features), self.sparse_arch(sparse_features)
        logits: torch.Tensor = self.over_arch(self.inter_arch(dense_features=dense, sparse_features=sparse))
        return logits


def make_model(config: RecommenderConfig, device: torch.device, dtype: torch.dtype, *, training: bool) -> nn.Module:
    """Build the model."""
    vectors = config.tables + 1
    weight = torch.randn(sum(config.rows), config.dim, dtype=dtype, device=device) * config.weight_scale
    bags = EmbeddingBags(weight, config.rows, sparse=training)
    interaction: nn.Module
    with torch.device(device):
        if config.cross_layers:
            interaction = CrossInteraction(CrossNet(vectors * config.dim, config.cross_rank, config.cross_layers))
            width = vectors * config.dim
        else:
            interaction = DotInteraction(config.tables)
            width = config.dim + vectors * config.tables // 2
        bottom = nn.Sequential(*_layers([config.dense_features, *config.bottom]), nn.ReLU())
        top = nn.Sequential(*_layers([width, *config.top]))
    return Dlrm(bags, bottom.to(dtype), interaction.to(dtype), top.to(dtype))


def make_features(indices: torch.Tensor, offsets: torch.Tensor, tables: int) -> TableFeatures:
    """Hand every table its part of the lookups."""
    batch = (offsets.numel() - 1) // tables
    bounds = offsets[::batch].tolist()
    by_table = [
        (indices[begin:end], offsets[table * batch : (table + 1) * batch + 1] - begin)
        for table, (begin, end) in enumerate(pairwise(bounds))
    ]
    return TableFeatures(indices, offsets, by_table)


def make_optimizers(model: Dlrm, config: RecommenderConfig) -> list[torch.optim.Optimizer]:
    """Return one Adagrad for the tables, whose gradients are sparse, and one for everything else."""
    # Said in either way, or torch warns that it does not check the gradients' indices.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    tables = list(model.sparse_arch.parameters())
    held = {id(each) for each in tables}
    others = [each for each in model.parameters() if id(each) not in held]
    return [
        torch.optim.Adagrad(parameters, lr=config.learning_rate, eps=config.epsilon) for parameters in (tables, others)
    ]


def _layers(widths: Sequence[int]) -> Iterator[nn.Module]:
    """Yield linear layers of these widths with ReLU between them."""
    for layer, (into, out) in enumerate(pairwise(widths)):
        if layer:
            yield nn.ReLU()
        yield nn.Linear(into, out)
