"""Other inputs for a problem that comes without cases of its own, such as a KernelBench file.

Its inputs may all lie where the function does nothing (a ReLU of numbers above zero), or be so many that every answer
is the same to within a rounding (the mean of a long row). Other values of the same shapes take that away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

WIDE = 8.0


def scaled(value: torch.Tensor) -> torch.Tensor:
    """Multiply by a factor in (1/4, 1], and each leading row by another."""
    rows = value.shape[:1] + (1,) * (value.dim() - 1)
    return value * (1 - 0.75 * torch.rand(())) * (1 - 0.75 * torch.rand(rows))


def wide(value: torch.Tensor) -> torch.Tensor:
    """Do the same, eight times as large, and with signs at random."""
    signs = torch.randint(0, 2, value.shape) * 2 - 1
    return scaled(value) * signs * WIDE


VARIATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"scaled": scaled, "wide": wide}


def vary(case: str, inputs: list[Any]) -> list[Any]:
    """Return a set of inputs as the case of that name has it, its floating tensors changed under torch's seed."""
    if case not in VARIATIONS:
        return inputs
    change = VARIATIONS[case]
    return [change(each) if isinstance(each, torch.Tensor) and each.is_floating_point() else each for each in inputs]
