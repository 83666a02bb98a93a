"""Fill memory that nobody has written yet, so that an output's unwritten parts show.

On a CPU the C library fills what it hands out (mallopt(3), M_PERTURB); on a GPU every free block that torch's caching
allocator holds is overwritten, and new allocations come from those.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import torch

M_PERTURB = -6
MOST_SMALL_BYTES = 1 << 20
"""Of what torch's caching allocator calls a small allocation; larger ones have segments of their own."""
_LIBC = ctypes.CDLL(None)
_snapshot = torch.cuda.memory_snapshot
_empty = torch.empty


@contextlib.contextmanager
def poisoned(device: torch.device, pattern: int | None) -> Iterator[None]:
    """While it lasts, uninitialised memory holds the byte `pattern`; `None` leaves memory as it is."""
    if pattern is None:
        yield
        return
    if device.type == "cuda":
        _fill_free_blocks(device, pattern)
        yield
        return
    perturb = getattr(_LIBC, "mallopt", None)
    if perturb is not None:
        # What is handed out is filled with the complement.
        perturb(M_PERTURB, pattern ^ 0xFF)
    try:
        yield
    finally:
        if perturb is not None:
            perturb(M_PERTURB, 0)


def _fill_free_blocks(device: torch.device, pattern: int) -> None:
    # The largest first, so that none is cut up for a smaller one.
    wanted = sorted(_free_blocks(device), reverse=True)
    held = [_empty(size, dtype=torch.uint8, device=device).fill_(pattern) for size in wanted]
    del held


def _free_blocks(device: torch.device) -> Iterator[int]:
    """Return sizes which, asked for, are served from what torch holds free."""
    for segment in _snapshot():  # type: ignore[no-untyped-call]
        # However much of a segment for small allocations is free, nothing larger than they are is served from it.
        most = MOST_SMALL_BYTES if segment["segment_type"] == "small" else segment["total_size"]
        free = (block["size"] for block in segment["blocks"] if block["state"] == "inactive")
        if segment["device"] == device.index:
            for size in free:
                yield from [most] * (size // most)
                if size % most:
                    yield size % most
