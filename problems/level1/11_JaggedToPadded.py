import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 512
BATCH = 2048
MEAN_LENGTH = 172.0
LENGTH_SIGMA = 0.4
EMPTY_SHARE = 0.02
MAX_LENGTH = 200


class Model(nn.Module):
    """Lay the bags of a jagged tensor out in rows of one length: short bags padded, long ones cut off."""

    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """
        values: [items, dim]
        offsets: [batch + 1] int64, bag b is values[offsets[b]:offsets[b + 1]]
        returns: [batch, max_length, dim], the first max_length items of each bag, then zeros
        """
        items, dim = values.shape
        batch = offsets.numel() - 1
        bags = torch.arange(batch, device=values.device).repeat_interleave(offsets.diff(), output_size=items)
        columns = torch.arange(items, device=values.device) - offsets[bags]
        # What does not fit goes to a spare row, so that no mask has to be counted on the host.
        spare = batch * self.max_length
        rows = torch.where(columns < self.max_length, bags * self.max_length + columns, spare)
        padded = values.new_zeros(spare + 1, dim).index_copy(0, rows, values)
        return padded[:-1].view(batch, self.max_length, dim)


def get_init_inputs():
    return [MAX_LENGTH]


def get_inputs():
    lengths = draw_lengths(BATCH, MEAN_LENGTH)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    return [torch.randn(int(offsets[-1]), DIM), as_index(offsets)]


def draw_lengths(bags: int, mean: float) -> torch.Tensor:
    """Lognormal bag lengths, some of them zero."""
    lengths = torch.exp(torch.randn(bags) * LENGTH_SIGMA + math.log(mean) - LENGTH_SIGMA**2 / 2)
    return torch.where(torch.rand(bags) < EMPTY_SHARE, 0.0, lengths).round().long()


class Index(torch.Tensor):
    """Integers that stay integers when a harness casts every input to one floating dtype."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def to(self, *args, **kwargs):
        targets = [*args, kwargs.get("device")]
        device = next((t for t in targets if isinstance(t, (str, int, torch.device))), None)
        return self if device is None else self.as_subclass(torch.Tensor).to(device)


def as_index(values: torch.Tensor) -> torch.Tensor:
    return values.as_subclass(Index)
