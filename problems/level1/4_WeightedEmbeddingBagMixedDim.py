import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = [
    250_000, 250_000, 250_000, 250_000, 250_000, 250_000, 250_000, 250_000,
    250_000, 250_000, 250_000, 250_000, 250_000, 250_000, 250_000, 250_000,
]  # fmt: skip
DIMS = [64, 128, 32, 256, 128, 64, 128, 32, 256, 64, 32, 128, 256, 32, 64, 256]
BATCH = 8192
MEAN_LENGTH = 20.0
LENGTH_SIGMA = 1.0
EMPTY_SHARE = 0.05
ZIPF_EXPONENT = 1.05
ZIPF_SHIFT = 10.0
HOTTEST_ROW = 0
WEIGHT_SCALE = 0.25


class Model(nn.Module):
    """Sum the rows of tables of several widths over each bag, every lookup times a weight of its own."""

    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        """
        indices: [lookups] int64, rows of a table: those of all bags of table 0, then those of table 1, and so on
        offsets: [tables * batch + 1] int64, bag i is indices[offsets[i]:offsets[i + 1]], with i = table * batch + b
        sample_weights: [lookups], the factor of each looked-up row
        returns: [batch, sum of the widths], each bag's weighted sum, tables side by side; an empty bag gives zeros
        """
        batch = (offsets.numel() - 1) // len(self.tables)
        # Rows of several widths fit no one matrix, so each table is a call of its own, on slices cut by host integers.
        cuts = offsets[::batch].tolist()
        pooled = [
            F.embedding_bag(
                indices[cuts[t] : cuts[t + 1]],
                table,
                offsets[t * batch : (t + 1) * batch + 1] - cuts[t],
                mode="sum",
                per_sample_weights=sample_weights[cuts[t] : cuts[t + 1]],
                include_last_offset=True,
            )
            for t, table in enumerate(self.tables)
        ]
        return torch.cat(pooled, dim=1)


def get_init_inputs():
    return [ROWS, DIMS, WEIGHT_SCALE]


def get_inputs():
    lengths = torch.stack([draw_lengths(BATCH, MEAN_LENGTH) for _ in ROWS])
    offsets = F.pad(lengths.flatten().cumsum(0), (1, 0))
    indices = torch.cat([draw_rows(int(count), rows) for count, rows in zip(lengths.sum(1), ROWS, strict=True)])
    return [as_index(indices), as_index(offsets), torch.randn(indices.numel())]


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
