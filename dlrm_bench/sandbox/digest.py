"""A number for each output, which nobody can tell who has not computed it.

A child tells the digests of a block's outputs together with the times of its calls: outputs that it hands over later
must be those. Without that, it could answer first and compute afterwards, and only what it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

WORDS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
# Bound before any submission is imported, so that replacing them later changes nothing in a child.
_stack, _tolist, _sum = torch.stack, torch.Tensor.tolist, torch.Tensor.sum
_contiguous, _reshape, _view, _clone = (
    torch.Tensor.contiguous,
    torch.Tensor.reshape,
    torch.Tensor.view,
    torch.Tensor.clone,
)
_numel, _element_size, _storage_offset = torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.storage_offset


def digests(outputs: Sequence[torch.Tensor]) -> list[int]:
    """Return the sum of the bits of each output, in words as long as they divide it, modulo 2^64."""
    told: list[int] = _tolist(_stack([_digest(each) for each in outputs])) if outputs else []
    return told


def _digest(output: torch.Tensor) -> torch.Tensor:
    flat = _reshape(_contiguous(output), (-1,))
    size, word = next(each for each in WORDS if _numel(flat) * _element_size(flat) % each[0] == 0)
    if _storage_offset(flat) * _element_size(flat) % size:
        flat = _clone(flat)
    return _sum(_view(flat, word), dtype=torch.int64)
