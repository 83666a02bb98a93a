"""fbgemm's SplitTableBatchedEmbeddingBagsCodegen with EXACT_ROWWISE_ADAGRAD, which steps in its backward pass.

It takes that pass only after a forward one, and steps in place, so each call copies the weights and momentum in first.
In bfloat16 it holds float16 rows, which have the same size, and float32 momentum.
"""

import math
from functools import cached_property
from typing import Any

import torch
from torch import nn

from dlrm_bench.baselines.fbgemm.table_batched import pad_columns, padded, split_tables
from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    momentum: torch.Tensor

    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate = learning_rate
        self.eps = eps
        # fbgemm averages the squared gradient over the padding too. A gradient that is larger by this factor makes up
        # for it, and a learning rate that is smaller by it gives the same step.
        self.stretch = math.sqrt(padded(dim) / dim)

    @cached_property
    def table(self) -> Any:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType

        return split_tables(
            [self.weight.shape],
            self.weight,
            optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            learning_rate=self.learning_rate / self.stretch,
            eps=self.eps,
        )

    @cached_property
    def state(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights without their padding, and the momentum, where fbgemm keeps them."""
        [weight] = self.table.split_embedding_weights()
        [[momentum]] = self.table.split_optimizer_states()
        weight.zero_()
        return weight[:, : self.weight.shape[1]], momentum

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        weight, momentum = self.state
        weight.copy_(self.weight.detach())
        momentum.copy_(self.momentum)
        if self.stretch != 1.0:
            gradient = pad_columns(gradient * self.stretch)
        with torch.enable_grad():
            self.table(indices, offsets).backward(gradient)
        stepped = self.weight.new_empty(weight.shape[0], weight.shape[1] + 1)
        stepped[:, :-1] = weight
        stepped[:, -1] = momentum
        return stepped
