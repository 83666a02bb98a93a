import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 128
HIDDEN_1 = 80
HIDDEN_2 = 40
BATCH = 8192
MEAN_LENGTH = 100.0
LENGTH_SIGMA = 0.5
EMPTY_SHARE = 0.05
WEIGHT_GAIN = 3.0
SCORE_SCALE = 0.3
INPUT_SCALE = 1.0


class Model(nn.Module):
    """Sum each sample's history, every item weighted by a small network that compares it with the target."""

    def __init__(self, dim: int, hidden_1: int, hidden_2: int, weight_gain: float, score_scale: float):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(hidden_1, 4 * dim) * weight_gain / math.sqrt(4 * dim))
        self.b1 = nn.Parameter(torch.randn(hidden_1))
        self.w2 = nn.Parameter(torch.randn(hidden_2, hidden_1) * weight_gain / math.sqrt(hidden_1))
        self.w3 = nn.Parameter(torch.randn(1, hidden_2) * score_scale / math.sqrt(hidden_2))
        # Sigmoids average 1/2: biases that take it out leave scores of both signs, which differ from item to item.
        self.b2 = nn.Parameter(-0.5 * self.w2.detach().sum(dim=1))
        self.b3 = nn.Parameter(-0.5 * self.w3.detach().sum(dim=1))

    def forward(self, target: torch.Tensor, history: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """
        target: [batch, dim]
        history: [items, dim]
        offsets: [batch + 1] int64, sample b's history is history[offsets[b]:offsets[b + 1]]
        returns: [batch, dim], the sum of each sample's items times their scores; an empty history gives zeros
        """
        items = history.shape[0]
        query = target.repeat_interleave(offsets.diff(), dim=0, output_size=items)
        hidden = torch.cat([query, history, query - history, query * history], dim=1)
        hidden = torch.sigmoid(F.linear(hidden, self.w1, self.b1))
        hidden = torch.sigmoid(F.linear(hidden, self.w2, self.b2))
        scores = F.linear(hidden, self.w3, self.b3).squeeze(1)
        every_item = torch.arange(items, device=history.device)
        return F.embedding_bag(
            every_item, history, offsets, mode="sum", per_sample_weights=scores, include_last_offset=True
        )


def get_init_inputs():
    return [DIM, HIDDEN_1, HIDDEN_2, WEIGHT_GAIN, SCORE_SCALE]


def get_inputs():
    lengths = draw_lengths(BATCH, MEAN_LENGTH)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    target = torch.randn(BATCH, DIM) * INPUT_SCALE
    history = torch.randn(int(offsets[-1]), DIM) * INPUT_SCALE
    return [target, history, as_index(offsets)]


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
