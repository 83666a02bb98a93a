"""The two recommenders: DLRM with dot products in inference, and DLRM-DCNv2 in training.

Both have the tables, bag lengths and index data of problem 2 (MLPerf's 26 tables, the largest cut off), and the batch
of the problem that their interaction is, so that results for the problems stand for them. Each has two builds: `eager`,
an nn.EmbeddingBag a table as facebookresearch/dlrm has it, and `fused`, torchrec's model over fbgemm's table-batched
embedding.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.precisions import DTYPES
from dlrm_bench.problems import load_problems
from dlrm_bench.records import Precision, Record
from dlrm_bench.workloads.base import Build, Workload

LOOKUPS_OF = "TableBatchedEmbeddingBagSum"
MODULES: dict[Build, str] = {"eager": "dlrm_eager", "fused": "dlrm_fused"}


class RecommenderConfig(Record, frozen=True):
    """A DLRM and its batch.

    Attributes:
        rows: of each table.
        mean_lengths: of each table's bags; lengths and row ids are drawn as problem 2 draws them.
        dim: columns of every table.
        dense_features: numbers that come with a sample.
        bottom: widths of the MLP over them; the last is `dim`.
        top: widths of the MLP over the interaction; the last is 1.
        batch: samples.
        cross_layers: low-rank cross layers; 0 for dot products.
        cross_rank: of their matrices.
        weight_scale: standard deviation of the tables' weights.
        bias_scale: likewise of the cross layers' biases.
        learning_rate: of Adagrad.
        epsilon: likewise.
    """

    rows: list[int]
    mean_lengths: list[float]
    dim: int
    dense_features: int
    bottom: list[int]
    top: list[int]
    batch: int
    cross_layers: int = 0
    cross_rank: int = 0
    weight_scale: float = 0.05
    bias_scale: float = 0.1
    learning_rate: float = 0.005
    epsilon: float = 1e-8

    @property
    def tables(self) -> int:
        """How many there are."""
        return len(self.rows)


class Features(Protocol):
    """The lookups of all tables, as problem 2 has them: torchrec's KeyedJaggedTensor is one."""

    def values(self) -> torch.Tensor:
        """Return the indices, [lookups] int64: those of all bags of table 0, then those of table 1, and so on."""

    def offsets(self) -> torch.Tensor:
        """Return where the bags begin, [tables * batch + 1] int64."""


@dataclass
class Recommender:
    """A recommender with one batch.

    Attributes:
        config: what it was built from.
        build: how.
        training: whether a step goes backward and updates the weights.
        model: has `sparse_arch`, `dense_arch`, `inter_arch` and `over_arch`, as torchrec's DLRM.
        dense: [batch, dense_features].
        features: the lookups.
        labels: [batch], 0 or 1.
        optimizers: of all weights that the backward pass itself does not update.
    """

    config: RecommenderConfig
    build: Build
    training: bool
    model: nn.Module
    dense: torch.Tensor
    features: Features
    labels: torch.Tensor
    optimizers: Sequence[torch.optim.Optimizer]

    @property
    def parts(self) -> dict[str, nn.Module]:
        """The two modules whose kernels problems stand for."""
        model: Any = self.model
        if self.config.cross_layers:
            return {"embedding": model.sparse_arch, "cross": model.inter_arch.crossnet}
        return {"embedding": model.sparse_arch, "interaction": model.inter_arch}

    def logits(self) -> torch.Tensor:
        """Return [batch, 1]."""
        logits: torch.Tensor = self.model(self.dense, self.features)
        return logits

    def step(self) -> torch.Tensor:
        """Return the logits of an inference step, or the loss of a training step."""
        if not self.training:
            with torch.no_grad():
                return self.logits()
        loss = self.loss(self.logits())
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def loss(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of the logits."""
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), self.labels)


def make_inference(config: RecommenderConfig, build: Build, device: torch.device, precision: Precision) -> Recommender:
    """Build a recommender for inference."""
    return _make(config, build, device, precision, training=False)


def make_training(config: RecommenderConfig, build: Build, device: torch.device, precision: Precision) -> Recommender:
    """Build a recommender for training with Adagrad: sparse gradients in `eager`, updates by fbgemm in `fused`."""
    return _make(config, build, device, precision, training=True)


def draw_lookups(config: RecommenderConfig, device: torch.device) -> list[torch.Tensor]:
    """Draw indices and offsets as problem 2 does, for these tables and this batch."""
    names = load_problems().find(LOOKUPS_OF).namespace()
    names.update(ROWS=config.rows, MEAN_LENGTHS=config.mean_lengths, BATCH=config.batch)
    with torch.device(device):
        return [each.to(device) for each in names["get_inputs"]()]


def _make(
    config: RecommenderConfig, build: Build, device: torch.device, precision: Precision, training: bool
) -> Recommender:
    module = importlib.import_module(f"dlrm_bench.workloads.{MODULES[build]}")
    dtype = DTYPES[precision]
    model: nn.Module = module.make_model(config, device, dtype, training=training)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            # As facebookresearch/dlrm draws them: logits of the order of 1, whatever the depth.
            nn.init.xavier_normal_(layer.weight)
    features = module.make_features(*draw_lookups(config, device), config.tables)
    return Recommender(
        config=config,
        build=build,
        training=training,
        model=model.train(training),
        dense=torch.randn(config.batch, config.dense_features, dtype=dtype, device=device),
        features=features,
        labels=torch.randint(2, (config.batch,), device=device).to(dtype),
        optimizers=module.make_optimizers(model, config) if training else [],
    )


# Problem 2's tables and lengths: rows of MLPerf's tables, cut off at half a million, and its multi-hot sizes.
_ROWS = [
    500_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 500_000, 500_000, 405_282, 10,
    2_209, 11_938, 155, 4, 976, 14, 500_000, 500_000, 500_000, 500_000, 12_973, 108, 36,
]  # fmt: skip
_MEAN_LENGTHS = [
    3.0, 2.0, 1.0, 2.0, 6.0, 1.0, 1.0, 1.0, 1.0, 7.0, 3.0, 8.0, 1.0,
    6.0, 9.0, 5.0, 1.0, 1.0, 1.0, 12.0, 100.0, 27.0, 10.0, 3.0, 1.0, 1.0,
]  # fmt: skip
_TINY_ROWS = [400, 3, 150, 57]
_TINY_LENGTHS = [3.0, 1.0, 12.0, 2.0]

WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            name="dlrm-inference",
            # The batch of problem 7. Most tables have one lookup a sample, and with a small batch it would be the host,
            # which launches a call a table, that decides how long a step takes.
            about="DLRM with dot products, MLPerf's MLPs and 26 tables of 128 columns, 65,536 samples of 200 lookups",
            mode="inference",
            full=RecommenderConfig(
                rows=_ROWS,
                mean_lengths=_MEAN_LENGTHS,
                dim=128,
                dense_features=13,
                bottom=[512, 256, 128],
                top=[1024, 1024, 512, 256, 1],
                batch=65_536,
            ),
            tiny=RecommenderConfig(
                rows=_TINY_ROWS,
                mean_lengths=_TINY_LENGTHS,
                dim=16,
                dense_features=13,
                bottom=[32, 16],
                top=[32, 1],
                batch=32,
            ),
            make=make_inference,
            builds=("eager", "fused"),
        ),
        Workload(
            name="dlrm-dcnv2-training",
            # The batch of problem 8, whose cross layers alone are milliseconds of matrix work forward and backward.
            about="DLRM-DCNv2, MLPerf's MLPs, 26 tables and 3 cross layers of rank 512, 16,384 samples, Adagrad",
            mode="training",
            full=RecommenderConfig(
                rows=_ROWS,
                mean_lengths=_MEAN_LENGTHS,
                dim=128,
                dense_features=13,
                bottom=[512, 256, 128],
                top=[1024, 1024, 512, 256, 1],
                batch=16_384,
                cross_layers=3,
                cross_rank=512,
            ),
            tiny=RecommenderConfig(
                rows=_TINY_ROWS,
                mean_lengths=_TINY_LENGTHS,
                dim=16,
                dense_features=13,
                bottom=[32, 16],
                top=[32, 1],
                batch=32,
                cross_layers=2,
                cross_rank=8,
            ),
            make=make_training,
            builds=("eager", "fused"),
        ),
    )
}
