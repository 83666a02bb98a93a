"""Keyed jagged permute: two launches, of which the second one copies.

Memory bounds it. At full size about 24 million ids are read and written, 0.38 GB, and 8 MB of lengths are read: 92 us
at 4.24 TB/s.

A key's values are one run, whatever its bags are, so that the lengths matter only as one total a key. The copy is split
into equal blocks of the result rather than by key, since keys differ by orders of magnitude. A block adds up the totals
before it to find its own run; nearly always one run fills it, and then the block is a plain copy from a shifted
address. From Hopper on the second launch starts while the first one still adds up.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

TOTAL_BLOCK = 2048  # lengths
TOTAL_WARPS = 4
COPY_BLOCK = 2048  # values
COPY_WARPS = 4
SEARCH_BLOCK = 1024  # keys


@triton.jit
def total_kernel(lengths, totals, BATCH: tl.constexpr, BLOCK: tl.constexpr, CHAINED: tl.constexpr):
    """Add up the lengths of one key."""
    if CHAINED:
        gdc_launch_dependents()
    key = tl.program_id(0)
    sample = tl.arange(0, BLOCK)
    total = tl.full([BLOCK], 0, tl.int64)
    for start in range(0, BATCH, BLOCK):
        inside = start + sample < BATCH
        length = lengths + key.to(tl.int64) * BATCH + start + sample
        total += tl.load(length, mask=inside, other=0, eviction_policy="evict_first")
    tl.store(totals + key, tl.sum(total))


# Where the alignment of the result is hidden, a warp stores 32 neighbours of 8 bytes at a time, just as it loads them.
@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["out"])
def copy_kernel(
    values,
    out,
    permutation,
    totals,
    count,
    KEYS: tl.constexpr,
    BLOCK: tl.constexpr,
    SEARCH: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Copy one block of the result."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    stop = tl.minimum(start + BLOCK, count)
    lane = tl.arange(0, BLOCK)
    each = tl.arange(0, SEARCH)
    key = tl.load(permutation + each, mask=each < KEYS, other=0)
    if CHAINED:
        gdc_wait()
    # Runs that end at or before a position are all before the one that it belongs to.
    place = 0
    begin = tl.full([], 0, tl.int64)
    reached = tl.full([], 0, tl.int64)
    for first in range(0, KEYS, SEARCH):
        total = tl.load(totals + key, mask=first + each < KEYS, other=0)
        passed = (reached + tl.cumsum(total) <= start) & (first + each < KEYS)
        place += tl.sum(passed.to(tl.int32))
        begin += tl.sum(tl.where(passed, total, 0))
        reached += tl.sum(total)
        following = first + SEARCH + each
        key = tl.load(permutation + following, mask=following < KEYS, other=0)
    while start < stop:
        own = tl.load(permutation + place)
        before = tl.full([SEARCH], 0, tl.int64)
        for first in range(0, KEYS, SEARCH):
            before += tl.load(totals + first + each, mask=first + each < own, other=0)
        shift = tl.sum(before) - begin
        end = begin + tl.load(totals + own)
        here = tl.minimum(end, stop)
        if start + BLOCK <= here:
            tl.store(out + start + lane, tl.load(values + (start + shift) + lane))
        else:
            inside = lane < (here - start).to(tl.int32)
            tl.store(out + start + lane, tl.load(values + (start + shift) + lane, mask=inside), mask=inside)
        start = here
        begin = end
        place += 1


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        keys, batch = lengths.shape
        count = values.numel()
        out = torch.empty_like(values)
        if count == 0:
            return out
        totals = torch.empty(keys, dtype=torch.int64, device=values.device)
        chained = can_chain(values.device)
        total_block = min(triton.next_power_of_2(batch), TOTAL_BLOCK)
        search_block = min(triton.next_power_of_2(keys), SEARCH_BLOCK)
        total_kernel[(keys,)](lengths, totals, BATCH=batch, BLOCK=total_block, CHAINED=chained, num_warps=TOTAL_WARPS)
        copy_kernel[(triton.cdiv(count, COPY_BLOCK),)](
            values,
            out,
            permutation,
            totals,
            count,
            KEYS=keys,
            BLOCK=COPY_BLOCK,
            SEARCH=search_block,
            CHAINED=chained,
            num_warps=COPY_WARPS,
            **({"launch_pdl": True} if chained else {}),
        )
        return out


@cache
def can_chain(device: torch.device) -> bool:
    """Return whether a launch can start there before the one before it has ended, and wait for it inside."""
    if device.type != "cuda" or torch.version.hip or triton.knobs.runtime.interpret:
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)
