import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 2_000_000
DIM = 128
BATCH = 131_072
MEAN_LENGTH = 20.0
LENGTH_SIGMA = 1.0
EMPTY_SHARE = 0.05
ZIPF_EXPONENT = 1.05
ZIPF_SHIFT = 10.0
HOTTEST_ROW = 0
WEIGHT_SCALE = 0.25


class Model(nn.Module):
    """Sum the rows of one embedding table over each bag of indices."""

    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """
        indices: [lookups] int64, rows of the table
        offsets: [batch + 1] int64, bag b is indices[offsets[b]:offsets[b + 1]]
        returns: [batch, dim], the sum of each bag's rows; an empty bag gives zeros
        """
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)


def get_init_inputs():
    return [ROWS, DIM, WEIGHT_SCALE]


def get_inputs():
    lengths = draw_lengths(BATCH, MEAN_LENGTH)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    indices = draw_rows(int(offsets[-1]), ROWS)
    return [as_index(indices), as_index(offsets)]


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
