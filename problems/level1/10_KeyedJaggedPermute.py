import torch
import torch.nn as nn

KEYS = 512
BATCH = 2048
MEAN_LENGTH = 24.0
KEY_SIGMA = 1.0
LENGTH_SIGMA = 1.0
EMPTY_SHARE = 0.05
ID_RANGE = 1_099_511_627_776


class Model(nn.Module):
    """Reorder the keys of a key-major jagged tensor."""

    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """
        permutation: [keys] int64, position k of the result holds key permutation[k]
        lengths: [keys, batch] int64
        values: [lengths.sum()] int64, those of key 0 first, a key's samples in order
        returns: [lengths.sum()] int64, the values of key permutation[0], then those of key permutation[1], ...
        """
        totals = lengths.sum(dim=1)
        starts = totals.cumsum(0) - totals
        moved = totals[permutation]
        shifts = starts[permutation] - (moved.cumsum(0) - moved)
        positions = torch.arange(values.numel(), device=values.device)
        return values[positions + shifts.repeat_interleave(moved, output_size=values.numel())]


def get_init_inputs():
    return []


def get_inputs():
    means = MEAN_LENGTH * torch.exp(torch.randn(KEYS, 1) * KEY_SIGMA - KEY_SIGMA**2 / 2)
    lengths = draw_key_lengths(means, BATCH)
    values = torch.randint(ID_RANGE, (int(lengths.sum()),))
    return [as_index(torch.randperm(KEYS)), as_index(lengths), as_index(values)]


def draw_key_lengths(means: torch.Tensor, batch: int) -> torch.Tensor:
    """Lognormal lengths around each key's mean, some of them zero."""
    lengths = means * torch.exp(torch.randn(len(means), batch) * LENGTH_SIGMA - LENGTH_SIGMA**2 / 2)
    return torch.where(torch.rand(len(means), batch) < EMPTY_SHARE, 0.0, lengths).round().long()


class Index(torch.Tensor):
    """Integers that stay integers when a harness casts every input to one floating dtype."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def to(self, *args, **kwargs):
        targets = [*args, kwargs.get("device")]
        device = next((t for t in targets if isinstance(t, (str, int, torch.device))), None)
        return self if device is None else self.as_subclass(torch.Tensor).to(device)


def as_index(values: torch.Tensor) -> torch.Tensor:
    return values.as_subclass(Index)
