"""Places in the recommenders where submissions for a problem can go.

A submission takes its weights from the problem's reference `Model`, built from the same arguments under the same seed,
and so does the original: both models then compute the same function.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from dlrm_bench.projection.forward_only import BagSums, RunAgain, TableSums
from dlrm_bench.workloads.recommenders import Features, Recommender


class Site(ABC):
    """A module of a recommender that a problem stands for.

    Attributes:
        problem: its name.
        place: the module's name in the model.
        not_covered: what of a training step a submission leaves to the original.
        arguments: for the constructor of each module that takes the place.
    """

    problem: ClassVar[str]
    place: ClassVar[str]
    not_covered: ClassVar[str]
    arguments: list[list[Any]]

    def __init__(self, recommender: Recommender):
        self.recommender = recommender
        self.model: Any = recommender.model
        self.config = recommender.config

    @abstractmethod
    def adopt(self, references: Sequence[Any]) -> None:
        """Give the original the weights of the problem's references, in the same memory if it can share them."""

    @abstractmethod
    def put(self, model: Any, modules: Sequence[nn.Module], backward: bool) -> nn.Module:
        """Return a model that has the modules in its place and shares the rest with `model`.

        Args:
            model: not changed.
            modules: one for each entry of `arguments`.
            backward: whether the original's operators go backward, since the modules cannot.
        """

    def refresh(self, references: Sequence[Any]) -> None:
        """Give references in float64 the weights that the original has by now, where it does not share its memory."""
        del references


class TablesSite(Site):
    """All tables in one call."""

    problem = "TableBatchedEmbeddingBagSum"
    place = "sparse_arch"
    not_covered = "backward and update of the tables"

    def __init__(self, recommender: Recommender):
        super().__init__(recommender)
        self.arguments = [[self.config.rows, self.config.dim, self.config.weight_scale]]

    def adopt(self, references: Sequence[Any]) -> None:
        """See `Site`; fbgemm's tables get a copy."""
        pieces = torch.split(references[0].weight.data, self.config.rows)
        if self.recommender.build == "fused":
            for table, piece in zip(self.tables(), pieces, strict=True):
                table.copy_(piece)
        else:
            for table, piece in zip(self.tables(), pieces, strict=True):
                table.data = piece

    def put(self, model: Any, modules: Sequence[nn.Module], backward: bool) -> nn.Module:
        """See `Site`."""
        tables = self.tables() if backward else []
        side_by_side = self.recommender.build == "eager"
        return replaced(model, sparse_arch=SplicedTables(modules[0], self.config.dim, tables, side_by_side))

    def refresh(self, references: Sequence[Any]) -> None:
        """See `Site`."""
        references[0].weight.data.copy_(torch.cat([table.detach() for table in self.tables()]))

    def tables(self) -> list[torch.Tensor]:
        """Return the original's."""
        if self.recommender.build == "fused":
            tables: list[torch.Tensor] = self.model.sparse_arch.embedding_bag_collection.bags.split_embedding_weights()
            return tables
        return [bag.weight for bag in self.model.sparse_arch.bags]


class BagsSite(Site):
    """A call a table, in the eager build."""

    problem = "EmbeddingBagSum"
    place = "sparse_arch"
    not_covered = TablesSite.not_covered

    def __init__(self, recommender: Recommender):
        super().__init__(recommender)
        self.arguments = [[rows, self.config.dim, self.config.weight_scale] for rows in self.config.rows]

    def adopt(self, references: Sequence[Any]) -> None:
        """See `Site`."""
        for bag, reference in zip(self.model.sparse_arch.bags, references, strict=True):
            bag.weight.data = reference.weight.data

    def put(self, model: Any, modules: Sequence[nn.Module], backward: bool) -> nn.Module:
        """See `Site`."""
        tables = [bag.weight for bag in self.model.sparse_arch.bags] if backward else []
        return replaced(model, sparse_arch=SplicedBags(modules, tables))


class DotSite(Site):
    """The dot interaction."""

    problem = "DotInteraction"
    place = "inter_arch"
    not_covered = "backward of the interaction"

    def __init__(self, recommender: Recommender):
        super().__init__(recommender)
        self.arguments = [[self.config.tables]]

    def adopt(self, references: Sequence[Any]) -> None:
        """Do nothing: it has no weights."""

    def put(self, model: Any, modules: Sequence[nn.Module], backward: bool) -> nn.Module:
        """See `Site`; where the original has the pairs in another order, the next layer's columns are moved."""
        spliced = replaced(model, inter_arch=SplicedInteraction(modules[0]))
        if self.recommender.build == "eager":
            return spliced
        over_arch = copy.deepcopy(model.over_arch)
        first = next(each for each in over_arch.modules() if isinstance(each, nn.Linear))
        first.weight.data = first.weight.data[:, pairs_below_of_above(self.config.tables + 1, self.config.dim)]
        return replaced(spliced, over_arch=over_arch)


class CrossSite(Site):
    """The cross layers."""

    problem = "LowRankCrossInteraction"
    place = "inter_arch.crossnet"
    not_covered = "backward of the cross layers, which runs the original's forward once more, and their update"

    def __init__(self, recommender: Recommender):
        super().__init__(recommender)
        config = self.config
        features = (config.tables + 1) * config.dim
        self.arguments = [[features, config.cross_rank, config.cross_layers, config.bias_scale]]

    def adopt(self, references: Sequence[Any]) -> None:
        """See `Site`."""
        reference, crossnet = references[0], self.model.inter_arch.crossnet
        if self.recommender.build == "fused":
            held = [*crossnet.V_kernels, *crossnet.W_kernels, *crossnet.bias]
        else:
            held = [*crossnet.v, *crossnet.w, *crossnet.b]
        for parameter, given in zip(held, [*reference.v, *reference.w, *reference.b], strict=True):
            parameter.data = given.data

    def put(self, model: Any, modules: Sequence[nn.Module], backward: bool) -> nn.Module:
        """See `Site`."""
        crossnet = SplicedCross(modules[0], model.inter_arch.crossnet) if backward else modules[0]
        return replaced(model, inter_arch=replaced(model.inter_arch, crossnet=crossnet))


class SplicedTables(nn.Module):
    """A submission for all tables in the place of an embedding module."""

    def __init__(self, module: nn.Module, dim: int, tables: Sequence[torch.Tensor], side_by_side: bool):
        super().__init__()
        self.module = module
        self.dim = dim
        self.tables = tables
        self.side_by_side = side_by_side

    def forward(self, features: Features) -> Any:
        """Return [batch, tables, dim], or as a list of one part [batch, tables * dim] where parts are expected."""
        if self.tables:
            sums = TableSums.apply(self.module, features, *self.tables)  # type: ignore[no-untyped-call]
        else:
            sums = self.module(features.values(), features.offsets())
        return [sums] if self.side_by_side else sums.view(sums.shape[0], -1, self.dim)


class SplicedBags(nn.Module):
    """Submissions for single tables in the place of nn.EmbeddingBags."""

    def __init__(self, modules: Sequence[nn.Module], tables: Sequence[torch.Tensor]):
        super().__init__()
        self.bags = nn.ModuleList(modules)
        self.tables = tables

    def forward(self, features: Any) -> list[torch.Tensor]:
        """Return [batch, dim] a table."""
        if not self.tables:
            return [bag(*lookups) for bag, lookups in zip(self.bags, features.by_table, strict=True)]
        parts = zip(self.bags, features.by_table, self.tables, strict=True)
        return [BagSums.apply(bag, *lookups, table) for bag, lookups, table in parts]  # type: ignore[no-untyped-call]


class SplicedInteraction(nn.Module):
    """A submission in the place of a dot interaction."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, dense_features: torch.Tensor, sparse_features: Any) -> torch.Tensor:
        """Return [batch, dim + pairs]."""
        if not isinstance(sparse_features, torch.Tensor):
            parts = list(sparse_features)
            side_by_side = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            sparse_features = side_by_side.view(dense_features.shape[0], -1, dense_features.shape[1])
        output: torch.Tensor = self.module(dense_features, sparse_features)
        return output


class SplicedCross(nn.Module):
    """A submission in the place of cross layers that are trained."""

    def __init__(self, module: nn.Module, original: nn.Module):
        super().__init__()
        self.module = module
        self.original = original

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return [batch, features]."""
        output: torch.Tensor = RunAgain.apply(  # type: ignore[no-untyped-call]
            self.module, self.original, features, *self.original.parameters()
        )
        return output


def replaced(module: nn.Module, **children: nn.Module) -> nn.Module:
    """Return a module that shares everything with another one but these children."""
    changed = copy.copy(module)
    changed._modules = {**module._modules, **children}
    return changed


def pairs_below_of_above(vectors: int, dim: int) -> torch.Tensor:
    """Return the columns of the dense vector and the pairs above the diagonal in the order of the pairs below it.

    Args:
        vectors: how many there are.
        dim: columns of the dense vector, which stay where they are.
    """
    place = torch.zeros(vectors, vectors, dtype=torch.int64)
    rows, columns = torch.triu_indices(vectors, vectors, offset=1)
    place[rows, columns] = torch.arange(rows.numel())
    below, left = torch.tril_indices(vectors, vectors, offset=-1)
    return torch.cat([torch.arange(dim), dim + place[left, below]])
