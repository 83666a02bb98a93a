import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 262_144
DIM = 128
BATCH = 65_536
MEAN_LENGTH = 20.0
LENGTH_SIGMA = 1.0
EMPTY_SHARE = 0.05
ZIPF_EXPONENT = 1.05
ZIPF_SHIFT = 10.0
HOTTEST_ROW = 0
GRADIENT_SCALE = 0.03125
MOMENTUM_SCALE = 0.01
LEARNING_RATE = 0.5
EPS = 1e-8


class Model(nn.Module):
    """One step of row-wise Adagrad on the table of a sum-pooled embedding bag, given the gradient of its output."""

    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate = learning_rate
        self.eps = eps

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """
        gradient: [batch, dim], the gradient of each bag's sum
        indices: [lookups] int64, rows of the table
        offsets: [batch + 1] int64, bag b is indices[offsets[b]:offsets[b + 1]]
        returns: [rows, dim + 1], the new weights and, in the last column, the new momentum of each row

        A row's gradient is the sum over all lookups of the row. The row's momentum grows by the mean square of that
        sum, and its weights fall by learning_rate * sum / (sqrt(new momentum) + eps).
        """
        compute = torch.promote_types(self.weight.dtype, torch.float32)
        # With its size given, repeat_interleave does not wait for the device to add it up.
        lookups = gradient.to(compute).repeat_interleave(offsets.diff(), dim=0, output_size=indices.numel())
        total = torch.zeros_like(self.weight, dtype=compute).index_add_(0, indices, lookups)
        momentum = self.momentum + total.square().mean(dim=1)
        step = self.learning_rate * total / (momentum.sqrt() + self.eps).unsqueeze(1)
        return torch.cat([self.weight - step, momentum.unsqueeze(1)], dim=1).to(self.weight.dtype)


def get_init_inputs():
    return [ROWS, DIM, LEARNING_RATE, EPS, MOMENTUM_SCALE]


def get_inputs():
    lengths = draw_lengths(BATCH, MEAN_LENGTH)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    indices = draw_rows(int(offsets[-1]), ROWS)
    return [torch.randn(BATCH, DIM) * GRADIENT_SCALE, as_index(indices), as_index(offsets)]


def draw_lengths(bags: int, mean: float) -> torch.Tensor:
    """Lognormal bag lengths, some of them zero."""
    lengths = torch.exp(torch.randn(bags) * LENGTH_SIGMA + math.log(mean) - LENGTH_SIGMA**2 / 2)
    return torch.where(torch.rand(bags) < EMPTY_SHARE, 0.0, lengths).round().long()


def draw_rows(count: int, rows: int) -> torch.Tensor:
    """Row ids by the inverse CDF of a Zipf-Mandelbrot law, hot rows scattered over the table."""
    power = 1.0 - ZIPF_EXPONENT
    first, last = ZIPF_SHIFT**power, (rows + ZIPF_SHIFT) ** power
    draw = torch.rand(count, dtype=torch.float64)
    rank = ((first + draw * (last - first)) ** (1.0 / power) - ZIPF_SHIFT).long().clamp(0, rows - 1)
    return (rank * 2_654_435_761 + HOTTEST_ROW) % rows


class Index(torch.Tensor):
    """Integers that stay integers when a harness casts every input to one floating dtype."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def to(self, *args, **kwargs):
        targets = [*args, kwargs.get("device")]
        device = next((t for t in targets if isinstance(t, (str, int, torch.device))), None)
        return self if device is None else self.as_subclass(torch.Tensor).to(device)


def as_index(values: torch.Tensor) -> torch.Tensor:
    return values.as_subclass(Index)
