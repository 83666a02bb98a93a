"""Weighted embedding bags of mixed widths: one launch, every program streams an equal share of lookups and bags.

Memory bounds it. At full size 2.5 million lookups of 240 bytes on average (bfloat16) carry 600 MB from L2 and L1 to the
SMs, and the output of 31 MB, the indices, the weights of the lookups and the distinct rows carry about 0.25 GB from and
to device memory: 60 microseconds at 4.24 TB/s.

A program is one warp. It finds its run of bags by a search in `offsets`, and as consecutive bags are consecutive in
`indices`, it streams their lookups without a stop at the bags' ends: it asks for the rows of UNROLL lookups and the
indices and weights of the next UNROLL before the first row is needed, then adds the rows up one by one and stores the
total wherever a bag ends, straight into the table's columns of the output. A small tensor tells where each table lies.
The kernel holds one copy of this loop for each distinct width, so that every table has addresses known to the compiler.
"""

import torch
import triton
import triton.language as tl
from torch import nn

# Lookups and bags of one program.
SHARE = 256
# Rows that a program has under way: as many as hold this many bytes, within bounds (16 at most).
BYTES_UNDER_WAY = 2048
FEWEST_ROWS = 4
MOST_ROWS = 8
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


@triton.jit
def locate(plan, table, output, ALIGNED: tl.constexpr):
    """Return a table's address, its columns' place in the first row of the output, and the number of its width."""
    weight = tl.load(plan + table * 4).to(tl.pointer_type(output.dtype.element_ty))
    first_column = tl.load(plan + table * 4 + 1)
    if ALIGNED:
        weight = tl.multiple_of(weight, 16)
        first_column = tl.multiple_of(first_column, 8)
    return weight, output + first_column, tl.load(plan + table * 4 + 2)


@triton.jit
def sum_run(
    weight,
    indices,
    offsets,
    sample_weights,
    target,
    bag,
    stop,
    COLUMNS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Sum BLOCK columns of the weighted rows of each bag from `bag` up to `stop`, all of one table."""
    LOOKUPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)[:UNROLL]
    # Beyond every lookup of the run: no bag ends there.
    NEVER: tl.constexpr = 1 << 30
    for first in range(0, DIM, BLOCK):
        column = first + tl.arange(0, BLOCK)
        # Columns beyond the row are neither read nor stored, and whole blocks need no mask.
        inside = None if DIM % BLOCK == 0 else column < DIM
        here = bag
        start = tl.load(offsets + here)
        limit = tl.load(offsets + stop)
        end = tl.load(offsets + here + 1)
        next_end = tl.load(offsets + here + 2, mask=here + 2 <= stop, other=limit + NEVER)
        table = weight + column
        lookup = indices + start
        factor = sample_weights + start
        remaining = (limit - start).to(tl.int32)
        # How far ahead of the current step the current bag ends.
        ahead = (end - start).to(tl.int32)
        row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
        next_factors = [tl.load(factor + each, mask=each < remaining, other=0.0) for each in LOOKUPS]
        total = tl.zeros([BLOCK], tl.float32)
        while here < stop:
            # Beyond the last lookup the table's first row is read, and added to no bag.
            rows = [tl.load(table + one * DIM, mask=inside) for one in row]
            factors = next_factors
            lookup += UNROLL
            factor += UNROLL
            remaining -= UNROLL
            row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
            next_factors = [tl.load(factor + each, mask=each < remaining, other=0.0) for each in LOOKUPS]
            for step in tl.static_range(UNROLL):
                while ahead == step:
                    tl.store(
                        target + here.to(tl.int64) * COLUMNS + column, total.to(target.dtype.element_ty), mask=inside
                    )
                    total = tl.zeros([BLOCK], tl.float32)
                    here += 1
                    ahead += (next_end - end).to(tl.int32)
                    end = next_end
                    next_end = tl.load(offsets + here + 2, mask=here + 2 <= stop, other=limit + NEVER)
                total += rows[step].to(tl.float32) * factors[step].to(tl.float32)
            ahead -= UNROLL


@triton.jit(do_not_specialize=["batch"])
def sum_bags(
    plan,
    indices,
    offsets,
    sample_weights,
    output,
    batch,
    TABLES: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTHS: tl.constexpr,
    BLOCKS: tl.constexpr,
    UNROLLS: tl.constexpr,
    ALIGNED: tl.constexpr,
    SHARE: tl.constexpr,
    PROBES: tl.constexpr,
):
    """Sum the weighted rows of each bag in a share of the bags."""
    bags = batch * TABLES
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
        weight, target, width = locate(plan, table, output, ALIGNED)
        target -= table.to(tl.int64) * batch * COLUMNS
        for number in tl.static_range(len(WIDTHS)):
            if width == number:
                sum_run(
                    weight, indices, offsets, sample_weights, target, bag, stop,
                    COLUMNS, WIDTHS[number], BLOCKS[number], UNROLLS[number],
                )  # fmt: skip
        bag = stop


@triton.jit(do_not_specialize=["batch"])
def sum_tile(
    plan,
    indices,
    offsets,
    sample_weights,
    output,
    batch,
    TABLES: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    BAGS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Sum the weighted rows of BAGS bags side by side, BLOCK columns of ROWS rows of each at a time."""
    bags = batch * TABLES
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)[:, None, None]
    each = tl.arange(0, ROWS)[None, :, None]
    line = plan + bag // batch * 4
    weight = tl.load(line, mask=bag < bags, other=0).to(tl.pointer_type(output.dtype.element_ty))
    first_column = tl.load(line + 1, mask=bag < bags, other=0)
    width = tl.load(line + 3, mask=bag < bags, other=0)
    start = tl.load(offsets + bag, mask=bag < bags, other=0)
    end = tl.load(offsets + bag + 1, mask=bag < bags, other=0)
    column = tl.zeros([1, 1, 1], tl.int32) + tl.arange(0, BLOCK)[None, None, :]
    widest = tl.max(width)
    while widest > 0:
        lookup = start + each
        total = tl.zeros([BAGS, 1, BLOCK], tl.float32)
        longest = tl.max(end - start)
        while longest > 0:
            row = tl.load(indices + lookup, mask=lookup < end, other=0)
            factor = tl.load(sample_weights + lookup, mask=lookup < end, other=0.0)
            rows = tl.load(weight + row * width + column, mask=(lookup < end) & (column < width), other=0.0)
            total += tl.sum(rows.to(tl.float32) * factor.to(tl.float32), axis=1, keep_dims=True)
            lookup += ROWS
            longest -= ROWS
        target = output + (bag % batch).to(tl.int64) * COLUMNS + first_column + column
        tl.store(target, total.to(output.dtype.element_ty), mask=column < width)
        column += BLOCK
        widest -= BLOCK


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )
        self.columns = sum(dims)
        self.widths = tuple(sorted(set(dims)))
        self.blocks = tuple(min(MOST_COLUMNS, triton.next_power_of_2(width)) for width in self.widths)
        self.addresses: list[int] = []
        self.plan = torch.empty(0)
        self.unrolls: tuple[int, ...] = ()
        self.aligned = False

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        self.update_plan()
        bags, tables = offsets.numel() - 1, len(self.tables)
        batch = bags // tables
        output = self.tables[0].new_empty(batch, self.columns)
        work = indices.numel() + bags
        long = indices.numel() > LONG * bags
        if long or 0 < work < FEWEST_STREAMED:
            tile_bags, tile_rows, warps = (1, LONG_ROWS, LONG_WARPS) if long else (TILE_BAGS, TILE_ROWS, TILE_WARPS)
            sum_tile[triton.cdiv(bags, tile_bags),](
                self.plan, indices, offsets, sample_weights, output, batch,
                TABLES=tables, COLUMNS=self.columns, BLOCK=self.blocks[-1], BAGS=tile_bags, ROWS=tile_rows,
                num_warps=warps,
            )  # fmt: skip
        elif work:
            sum_bags[triton.cdiv(work, SHARE),](
                self.plan, indices, offsets, sample_weights, output, batch,
                TABLES=tables, COLUMNS=self.columns, WIDTHS=self.widths, BLOCKS=self.blocks, UNROLLS=self.unrolls,
                ALIGNED=self.aligned, SHARE=SHARE, PROBES=PROBES, num_warps=1, maxnreg=MAX_REGISTERS,
            )  # fmt: skip
        return output

    def update_plan(self) -> None:
        """Note where the tables lie, whenever one of them has moved.

        A line a table: its address, its first column in the output, its width's number among the widths, its width.
        """
        addresses = [table.data_ptr() for table in self.tables]
        if addresses == self.addresses:
            return
        dims = [table.shape[1] for table in self.tables]
        starts = [sum(dims[:t]) for t in range(len(dims))]
        numbers = [self.widths.index(dim) for dim in dims]
        item = self.tables[0].element_size()
        self.unrolls = tuple(
            max(FEWEST_ROWS, min(MOST_ROWS, BYTES_UNDER_WAY // (block * item))) for block in self.blocks
        )
        self.aligned = all(number % 16 == 0 for number in addresses + [dim * item for dim in dims])
        self.plan = torch.tensor([addresses, starts, numbers, dims]).T.contiguous().to(self.tables[0].device)
        self.addresses = addresses
