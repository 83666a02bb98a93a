"""A number for each output, which nobody can tell who has not computed it.

A child tells the digests of a block's outputs together with the times of its calls: outputs that it hands over later
must be those. Without that, it could answer first and compute afterwards, and only what it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

WORDS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))


def digests(outputs: Sequence[torch.Tensor]) -> list[int]:
    """Return the sum of the bits of each output, in words as long as they divide it, modulo 2^64."""
    return torch.stack([_digest(each) for each in outputs]).tolist() if outputs else []


def _digest(output: torch.Tensor) -> torch.Tensor:
    flat = output.contiguous().reshape(-1)
    size, word = next(each for each in WORDS if flat.numel() * flat.element_size() % each[0] == 0)
    if flat.storage_offset() * flat.element_size() % size:
        flat = flat.clone()
    return flat.view(word).sum(dtype=torch.int64)
