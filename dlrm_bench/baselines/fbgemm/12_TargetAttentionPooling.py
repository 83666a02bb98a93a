"""A composition of PyTorch's matrix products with fbgemm's jagged operations; no library has the whole.

w1 [q, k, q - k, q * k] = (w1q + w1d) q + (w1k - w1d) k + w1p (q * k): the target's part is computed once a sample, and
the concatenation is never made. The weighted sum is batched_dense_vec_jagged_2d_mul: of fbgemm's products that take
jagged rows, the one that accumulates bfloat16 in float32. It wants the scores padded, and so the longest length on
the host: one wait for the GPU, at the start, where nothing is queued yet.
"""

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import nn

from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class Layers(NamedTuple):
    """The network's weights, transposed for addmm and, in the first layer, gathered by what they multiply."""

    target: torch.Tensor
    item: torch.Tensor
    product: torch.Tensor
    b1: torch.Tensor
    w2: torch.Tensor
    b2: torch.Tensor
    w3: torch.Tensor
    b3: torch.Tensor


class ModelNew(nn.Module):
    def __init__(self, dim: int, hidden_1: int, hidden_2: int, weight_gain: float, score_scale: float):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(hidden_1, 4 * dim) * weight_gain / math.sqrt(4 * dim))
        self.b1 = nn.Parameter(torch.randn(hidden_1))
        self.w2 = nn.Parameter(torch.randn(hidden_2, hidden_1) * weight_gain / math.sqrt(hidden_1))
        self.w3 = nn.Parameter(torch.randn(1, hidden_2) * score_scale / math.sqrt(hidden_2))
        self.b2 = nn.Parameter(-0.5 * self.w2.detach().sum(dim=1))
        self.b3 = nn.Parameter(-0.5 * self.w3.detach().sum(dim=1))

    @cached_property
    def layers(self) -> Layers:
        target, item, difference, product = self.w1.detach().t().chunk(4)
        return Layers(
            target=target + difference,
            item=item - difference,
            product=product.contiguous(),
            b1=self.b1.detach(),
            w2=self.w2.detach().t(),
            b2=self.b2.detach(),
            w3=self.w3.detach().t(),
            b3=self.b3.detach(),
        )

    def forward(self, target: torch.Tensor, history: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        net = self.layers
        lengths = offsets.diff()
        longest = max(int(lengths.max()), 1)
        samples = torch.repeat_interleave(lengths, output_size=history.shape[0])
        products = target.index_select(0, samples).mul_(history)
        hidden = torch.addmm(net.b1, target, net.target).index_select(0, samples)
        hidden = hidden.addmm_(history, net.item).addmm_(products, net.product).sigmoid_()
        hidden = torch.addmm(net.b2, hidden, net.w2).sigmoid_()
        scores = torch.addmm(net.b3, hidden, net.w3)
        padded = torch.ops.fbgemm.jagged_to_padded_dense(scores, [offsets], [longest], 0.0).squeeze(2)
        pooled: torch.Tensor = torch.ops.fbgemm.batched_dense_vec_jagged_2d_mul(padded, history, offsets)
        return pooled
