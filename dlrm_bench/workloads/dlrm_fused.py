"""torchrec's DLRM over fbgemm's table-batched embedding: all tables in one call, updated in the backward pass.

fbgemm has no bfloat16 rows: beside a bfloat16 model the tables are float16, of the same size, with bfloat16 output.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from dlrm_bench.baselines.fbgemm.table_batched import split_tables
from dlrm_bench.libraries import require_torchrec
from dlrm_bench.workloads.recommenders import RecommenderConfig

NOTES = ("_fbgemm_torch_compat_table has no entry", "is_fx_tracing will return true")


class TableBatchedCollection(nn.Module):
    """fbgemm's table-batched bags where torchrec's models expect an EmbeddingBagCollection."""

    def __init__(self, config: RecommenderConfig, like: torch.Tensor, **optimizer: Any):
        super().__init__()
        self.keys = feature_names(config.tables)
        self.rows, self.dim = config.rows, config.dim
        shapes = [torch.Size([rows, config.dim]) for rows in config.rows]
        self.bags = split_tables(shapes, like, **optimizer)
        for table in self.bags.split_embedding_weights():
            table.normal_(std=config.weight_scale)

    def embedding_bag_configs(self) -> list[Any]:
        """Return what torchrec wants to know of the tables."""
        from torchrec.modules.embedding_configs import EmbeddingBagConfig

        return [
            EmbeddingBagConfig(name=key, embedding_dim=self.dim, num_embeddings=rows, feature_names=[key])
            for key, rows in zip(self.keys, self.rows, strict=True)
        ]

    def forward(self, features: Any) -> Any:
        """Return a KeyedTensor of [batch, tables * dim] for a KeyedJaggedTensor."""
        from torchrec.sparse.jagged_tensor import KeyedTensor

        pooled = self.bags(features.values(), features.offsets())
        return KeyedTensor(self.keys, [self.dim] * len(self.keys), pooled)


def make_model(config: RecommenderConfig, device: torch.device, dtype: torch.dtype, *, training: bool) -> nn.Module:
    """Build the model.

    Raises:
        MissingPackageError: fbgemm-gpu or torchrec is not installed.
        LibraryPairError: fbgemm-gpu was built for another release of torch.
    """
    with without_notes():
        require_torchrec()
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from torchrec.models.dlrm import DLRM, DLRM_DCN

    update: dict[str, Any] = {"optimizer": EmbOptimType.EXACT_SGD}
    if training:
        update = {
            "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            "learning_rate": config.learning_rate,
            "eps": config.epsilon,
        }
    bags = TableBatchedCollection(config, torch.empty(0, dtype=dtype, device=device), **update)
    with torch.device(device):
        widths = (config.dense_features, config.bottom, config.top)
        if config.cross_layers:
            model: nn.Module = DLRM_DCN(bags, *widths, config.cross_layers, config.cross_rank)
        else:
            model = DLRM(bags, *widths)
    for name, part in model.named_children():
        if name != "sparse_arch":
            part.to(dtype)
    return model


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
    """Keep fbgemm and torch from saying what nobody here can act upon.

    fbgemm notes for each of its libraries that its own table of releases lacks this one; whether it fits the torch that
    is installed has been looked up before. torch.fx tells torchrec of a function that it should no longer call.
    """

    def matters(record: logging.LogRecord) -> bool:
        return not any(note in record.getMessage() for note in NOTES)

    loggers = [logging.getLogger(name) for name in (None, "torch.fx._symbolic_trace")]
    for logger in loggers:
        logger.addFilter(matters)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(matters)


def make_features(indices: torch.Tensor, offsets: torch.Tensor, tables: int) -> Any:
    """Return the lookups as a KeyedJaggedTensor."""
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    with without_notes():
        return KeyedJaggedTensor(keys=feature_names(tables), values=indices, offsets=offsets)


def make_optimizers(model: nn.Module, config: RecommenderConfig) -> list[torch.optim.Optimizer]:
    """Return one Adagrad for everything but the tables, which fbgemm updates itself."""
    parts = [part for name, part in model.named_children() if name != "sparse_arch"]
    parameters = [each for part in parts for each in part.parameters()]
    return [torch.optim.Adagrad(parameters, lr=config.learning_rate, eps=config.epsilon)]


def feature_names(tables: int) -> list[str]:
    """Return one name a table."""
    return [f"t{table}" for table in range(tables)]
