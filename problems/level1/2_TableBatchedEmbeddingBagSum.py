import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = [
    500_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 500_000, 500_000, 405_282, 10,
    2_209, 11_938, 155, 4, 976, 14, 500_000, 500_000, 500_000, 500_000, 12_973, 108, 36,
]  # fmt: skip
MEAN_LENGTHS = [
    3.0, 2.0, 1.0, 2.0, 6.0, 1.0, 1.0, 1.0, 1.0, 7.0, 3.0, 8.0, 1.0,
    6.0, 9.0, 5.0, 1.0, 1.0, 1.0, 12.0, 100.0, 27.0, 10.0, 3.0, 1.0, 1.0,
]  # fmt: skip
DIM = 128
BATCH = 16_384
LENGTH_SIGMA = 0.5
EMPTY_SHARE = 0.05
ZIPF_EXPONENT = 1.05
ZIPF_SHIFT = 10.0
HOTTEST_ROW = 0
WEIGHT_SCALE = 0.25


class Model(nn.Module):
    """Sum the rows of many tables over the bags of each; the tables lie one below the other in `weight`."""

    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """
        indices: [lookups] int64, rows of a table: those of all bags of table 0, then those of table 1, and so on
        offsets: [tables * batch + 1] int64, bag i is indices[offsets[i]:offsets[i + 1]], with i = table * batch + b
        returns: [batch, tables * dim], the sum of each bag's rows, tables side by side; an empty bag gives zeros
        """
        tables = self.first_rows.numel()
        batch = (offsets.numel() - 1) // tables
        lookups = offsets[::batch].diff()
        # With its size given, repeat_interleave does not wait for the device to add it up.
        first_rows = self.first_rows.repeat_interleave(lookups, output_size=indices.numel())
        pooled = F.embedding_bag(indices + first_rows, self.weight, offsets, mode="sum", include_last_offset=True)
        return pooled.view(tables, batch, -1).transpose(0, 1).reshape(batch, -1)


def get_init_inputs():
    return [ROWS, DIM, WEIGHT_SCALE]


def get_inputs():
    lengths = torch.stack([draw_lengths(BATCH, mean) for mean in MEAN_LENGTHS])
    offsets = F.pad(lengths.flatten().cumsum(0), (1, 0))
    indices = torch.cat([draw_rows(int(count), rows) for count, rows in zip(lengths.sum(1), ROWS, strict=True)])
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
