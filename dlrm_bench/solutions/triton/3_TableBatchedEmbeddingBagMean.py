"""Table-batched embedding bags, mean: one launch, every program streams an equal share of lookups and bags.

Memory bounds it. At full size 3.6 million lookups of 256 bytes (bfloat16) carry 910 MB from L2 and L1 to the SMs, and
the output of 84 MB, the indices and the distinct rows carry about 0.2 GB from and to device memory: 50 microseconds at
4.24 TB/s. Mean lengths of 1.6 to 37 make equal numbers of bags unequal work.

A program is one warp. It finds its run of bags by a search in `offsets`, and as consecutive bags are consecutive in
`indices`, it streams their lookups without a stop at the bags' ends: it asks for the rows of UNROLL lookups and the
indices of the next UNROLL before the first row is needed, then adds the rows up one by one and stores the mean
wherever a bag ends, straight into the table's columns of the output.
"""

import torch
import triton
import triton.language as tl
from torch import nn

# Lookups and bags of one program.
SHARE = 512
# Rows that a program has under way, at most 16.
UNROLL = 16
MOST_COLUMNS = 256
MAX_REGISTERS = None
# Bags that the search looks at in one round.
PROBES = 128
# Less work than this, in lookups and bags, is done in tiles: there would be too few programs of the other kind.
FEWEST_STREAMED = 32_768
TILE_BAGS = 8
TILE_ROWS = 4
TILE_WARPS = 4
# Bags of this mean length have a program of their own, which reads LONG_ROWS rows at a time.
LONG = 1024
LONG_ROWS = 64
LONG_WARPS = 8


@triton.jit
def first_bag(offsets, bags, key, PROBES: tl.constexpr):
    """Return the first bag b with offsets[b] + b >= key."""
    low = 0
    high = bags
    while low < high:
        stride = (high - low + PROBES - 1) // PROBES
        probe = low + tl.arange(0, PROBES) * stride
        before = tl.load(offsets + probe, mask=probe < high, other=key) + probe < key
        count = tl.sum(before.to(tl.int32))
        high = tl.minimum(low + count * stride, high)
        low = tl.where(count > 0, low + (count - 1) * stride + 1, high)
    return low


@triton.jit(do_not_specialize=["batch"])
def average_bags(
    weight,
    first_rows,
    indices,
    offsets,
    output,
    batch,
    TABLES: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    SHARE: tl.constexpr,
    UNROLL: tl.constexpr,
    PROBES: tl.constexpr,
):
    """Average BLOCK columns of the rows of each bag in a share of the bags."""
    LOOKUPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)[:UNROLL]
    # Beyond every lookup of the share: no bag ends there.
    NEVER: tl.constexpr = 1 << 30
    bags = batch * TABLES
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # Columns beyond the row are neither read nor stored, and whole blocks need no mask.
    inside = None if DIM % BLOCK == 0 else column < DIM

    # A bag counts as much as a lookup, so that a share holds SHARE bags at most.
    key = tl.program_id(0).to(tl.int64) * SHARE
    bag = first_bag(offsets, bags, key, PROBES)
    follower = bag + tl.arange(0, SHARE)
    following = tl.load(offsets + follower, mask=follower < bags, other=key + SHARE) + follower < key + SHARE
    last = bag + tl.sum(following.to(tl.int32))
    # The part of the share in one table; few shares reach into the next.
    while bag < last:
        table = bag // batch
        stop = tl.minimum((table + 1) * batch, last)
        rows_of_table = weight + tl.load(first_rows + table) * DIM + column
        # Where the table's columns of output row 0 would be if its first bag were bag 0.
        target = output + (table - table.to(tl.int64) * batch * TABLES) * DIM + column

        start = tl.load(offsets + bag)
        limit = tl.load(offsets + stop)
        end = tl.load(offsets + bag + 1)
        next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= stop, other=limit + NEVER)
        lookup = indices + start
        remaining = (limit - start).to(tl.int32)
        # How far ahead of the current step the current bag ends.
        length = (end - start).to(tl.int32)
        ahead = length
        row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
        total = tl.zeros([BLOCK], tl.float32)
        while bag < stop:
            # Beyond the last lookup the table's first row is read, and added to no bag.
            rows = [tl.load(rows_of_table + one * DIM, mask=inside) for one in row]
            lookup += UNROLL
            remaining -= UNROLL
            row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
            for step in tl.static_range(UNROLL):
                while ahead == step:
                    pooled = total * (1.0 / tl.maximum(length, 1).to(tl.float32))
                    tl.store(
                        target + bag.to(tl.int64) * (TABLES * DIM), pooled.to(output.dtype.element_ty), mask=inside
                    )
                    total = tl.zeros([BLOCK], tl.float32)
                    bag += 1
                    length = (next_end - end).to(tl.int32)
                    ahead += length
                    end = next_end
                    next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= stop, other=limit + NEVER)
                total += rows[step].to(tl.float32)
            ahead -= UNROLL


@triton.jit(do_not_specialize=["batch"])
def average_tile(
    weight,
    first_rows,
    indices,
    offsets,
    output,
    batch,
    TABLES: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    BAGS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Average BLOCK columns of the rows of BAGS bags side by side, ROWS rows of each at a time."""
    bags = batch * TABLES
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)[:, None, None]
    each = tl.arange(0, ROWS)[None, :, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, None, :]
    inside = (bag < bags) & (column < DIM)
    table = bag // batch
    first_row = tl.load(first_rows + table, mask=bag < bags, other=0)
    start = tl.load(offsets + bag, mask=bag < bags, other=0)
    end = tl.load(offsets + bag + 1, mask=bag < bags, other=0)
    lookup = start + each
    total = tl.zeros([BAGS, 1, BLOCK], tl.float32)
    longest = tl.max(end - start)
    while longest > 0:
        row = first_row + tl.load(indices + lookup, mask=lookup < end, other=0)
        rows = tl.load(weight + row * DIM + column, mask=(lookup < end) & inside, other=0.0)
        total += tl.sum(rows.to(tl.float32), axis=1, keep_dims=True)
        lookup += ROWS
        longest -= ROWS
    pooled = total * (1.0 / tl.maximum(end - start, 1).to(tl.float32))
    target = output + ((bag % batch).to(tl.int64) * TABLES + table) * DIM + column
    tl.store(target, pooled.to(output.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    first_rows: torch.Tensor

    def __init__(self, rows: list[int], dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(rows), dim) * weight_scale)
        self.register_buffer("first_rows", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags, tables, dim = offsets.numel() - 1, self.first_rows.numel(), self.weight.shape[1]
        batch = bags // tables
        output = self.weight.new_empty(batch, tables * dim)
        work = indices.numel() + bags
        block = min(MOST_COLUMNS, triton.next_power_of_2(dim))
        blocks = triton.cdiv(dim, block)
        long = indices.numel() > LONG * bags
        if long or 0 < work < FEWEST_STREAMED:
            tile_bags, tile_rows, warps = (1, LONG_ROWS, LONG_WARPS) if long else (TILE_BAGS, TILE_ROWS, TILE_WARPS)
            average_tile[triton.cdiv(bags, tile_bags), blocks](
                self.weight, self.first_rows, indices, offsets, output, batch,
                TABLES=tables, DIM=dim, BLOCK=block, BAGS=tile_bags, ROWS=tile_rows, num_warps=warps,
            )  # fmt: skip
        elif work:
            average_bags[triton.cdiv(work, SHARE), blocks](
                self.weight, self.first_rows, indices, offsets, output, batch,
                TABLES=tables, DIM=dim, BLOCK=block, SHARE=SHARE, UNROLL=UNROLL, PROBES=PROBES,
                num_warps=1, maxnreg=MAX_REGISTERS,
            )  # fmt: skip
        return output
