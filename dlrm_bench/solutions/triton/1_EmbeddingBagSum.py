"""Embedding bag, sum: one launch, slots of lanes that walk runs of bags.

Memory bounds it. At full size 2.5 million lookups of 256 bytes in bfloat16 are 640 MB between L2 and the SMs, of which
the L1 serves the hottest rows; the distinct rows, the output and the indices are about 0.2 GB of device memory, 50
microseconds at 4.24 TB/s.

A slot is as many lanes as read one row with 16 bytes each, so that a warp holds two slots of 128 half-precision
columns. It walks BAGS_PER_SLOT consecutive bags, ROWS_IN_FLIGHT lookups at a time, and goes on to its next bag without
waiting for the other slots of the warp. Consecutive bags are consecutive in `indices`, so the indices of the next step
are loaded together with the rows of this one, and only the latency of the rows remains.
"""

import torch
import triton
import triton.language as tl
from torch import nn

ROWS_IN_FLIGHT = 8
ROWS_IN_FLIGHT_OF_GIANTS = 32
GIANT_LENGTH = 256
BAGS_PER_SLOT = 4
# Few bags are spread over more programs rather than queued in a slot.
FEWEST_PROGRAMS = 8192
MOST_BYTES_OF_A_BLOCK = 512
BYTES_OF_A_WARP = 512
INDEX_EVICTION = "evict_first"
ROW_EVICTION = ""
OUTPUT_EVICTION = "evict_first"


@triton.jit
def sum_bags(
    weight,
    indices,
    offsets,
    output,
    bags,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    SLOTS: tl.constexpr,
    RUN: tl.constexpr,
    UNROLL: tl.constexpr,
    INDEX_EVICTION: tl.constexpr,
    ROW_EVICTION: tl.constexpr,
    OUTPUT_EVICTION: tl.constexpr,
):
    """Sum BLOCK columns of the rows of RUN consecutive bags in each of SLOTS slots."""
    # Every tensor has the axes slot, lookup and column, so that each state of a slot lives in one layout only.
    BLOCKS: tl.constexpr = (DIM + BLOCK - 1) // BLOCK
    unit = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)[:, None, None]
    lookup = tl.arange(0, UNROLL)[None, :, None]
    column = unit % BLOCKS * BLOCK + tl.arange(0, BLOCK)[None, None, :]
    inside = column < DIM

    bag = tl.minimum(unit // BLOCKS * RUN, bags)
    last = tl.minimum(bag + RUN, bags)
    # An empty bag takes a step too, in which its zeros are written.
    each = bag + tl.arange(0, RUN)[None, :, None]
    lengths = tl.load(offsets + tl.minimum(each + 1, last)) - tl.load(offsets + tl.minimum(each, last))
    steps = tl.max(tl.sum(tl.maximum((lengths + UNROLL - 1) // UNROLL, 1).to(tl.int32), axis=1))

    position = tl.load(offsets + bag)
    end = tl.load(offsets + tl.minimum(bag + 1, last))
    next_end = tl.load(offsets + tl.minimum(bag + 2, last))
    remaining = (end - position).to(tl.int32)
    row = tl.load(indices + position + lookup, mask=lookup < remaining, other=0, eviction_policy=INDEX_EVICTION)
    total = tl.zeros([SLOTS, 1, BLOCK], tl.float32)
    for _ in range(steps):
        rows = tl.load(
            weight + row.to(tl.int32).to(tl.int64) * DIM + column,
            mask=(lookup < remaining) & inside,
            other=0.0,
            eviction_policy=ROW_EVICTION,
        )
        # Where the next lookups stand and how many they are does not depend on the rows under way.
        finished = remaining <= UNROLL
        position += tl.minimum(remaining, UNROLL)
        end = tl.where(finished, next_end, end)
        remaining = (end - position).to(tl.int32)
        row = tl.load(indices + position + lookup, mask=lookup < remaining, other=0, eviction_policy=INDEX_EVICTION)
        next_end = tl.load(offsets + tl.minimum(bag + finished + 2, last))

        total += tl.sum(rows.to(tl.float32), axis=1, keep_dims=True)
        tl.store(
            output + bag.to(tl.int64) * DIM + column,
            total.to(output.dtype.element_ty),
            mask=finished & (bag < last) & inside,
            eviction_policy=OUTPUT_EVICTION,
        )
        total = tl.where(finished, 0.0, total)
        bag += finished


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags, dim = offsets.numel() - 1, self.weight.shape[1]
        output = self.weight.new_empty(bags, dim)
        return output
