"""Read table rows at random and do nothing with them: the rate that a look-up can reach at most."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from dlrm_bench.timing.device import times_of

ROW_WORDS = 32
"""256 bytes: a row of 128 columns in half precision."""
MOST_ROWS = 1 << 16
"""16 MiB, or half of the L2 where that is less."""
LOOKUPS = 1 << 21
SHARE = 128
"""Look-ups of one program, of one warp: several programs for each that fits on the device at a time."""
TILE = 16
"""Rows under way: 8 loads of 16 bytes a thread."""


@triton.jit  # type: ignore[untyped-decorator]
def read_rows(  # type: ignore[no-untyped-def]
    table, indices, sink, WORDS: tl.constexpr, SHARE: tl.constexpr, TILE: tl.constexpr
):
    """Combine the rows of SHARE look-ups to one word, so that no load can be left out."""
    each = tl.arange(0, TILE)
    word = tl.arange(0, WORDS)
    first = indices + tl.program_id(0) * SHARE + each
    row = tl.load(first)
    combined = tl.zeros([TILE, WORDS], tl.int64)
    for done in range(0, SHARE, TILE):
        rows = tl.load(table + row[:, None] * WORDS + word[None, :])
        row = tl.load(first + done + TILE, mask=done + TILE + each < SHARE, other=0)
        combined ^= rows
    tl.store(sink + tl.program_id(0), tl.xor_sum(tl.xor_sum(combined, 1), 0))


def combine_rows(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return one word for each SHARE look-ups: all words of their rows, combined by exclusive or.

    Args:
        table: int64, [rows, ROW_WORDS].
        indices: int64, a multiple of SHARE of them.

    Returns:
        int64, [look-ups / SHARE].
    """
    sink = torch.empty(len(indices) // SHARE, dtype=torch.int64, device=table.device)
    read_rows[(len(sink),)](table, indices, sink, WORDS=ROW_WORDS, SHARE=SHARE, TILE=TILE, num_warps=1)
    return sink


def measure_gather(device: torch.device) -> float:
    """Measure the bytes a second of rows that are read at random out of a GPU's L2, the fastest of several runs."""
    rows = min(MOST_ROWS, torch.cuda.get_device_properties(device).L2_cache_size // (2 * 8 * ROW_WORDS))
    table = torch.randint(1 << 62, (rows, ROW_WORDS), device=device)
    indices = torch.randint(rows, (LOOKUPS,), device=device)
    with torch.cuda.device(device):
        fastest_us = min(times_of(lambda: combine_rows(table, indices), device))
    return LOOKUPS * ROW_WORDS * 8 / fastest_us * 1e6
