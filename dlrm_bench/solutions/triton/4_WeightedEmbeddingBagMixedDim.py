"""Weighted embedding bags of mixed widths: one launch, 16 bags a program, summed by products on the tensor cores.

Memory bounds it. At full size 2.5 million lookups of 240 bytes on average (bfloat16) carry 600 MB from L2 and L1 to the
SMs, and the output of 31 MB, the indices, the weights of the lookups and the distinct rows carry about 0.25 GB from and
to device memory: 60 microseconds at 4.24 TB/s. On an H200 reading the rows takes 69 microseconds, if nothing is done
with them.

A program has BAGS bags of one table, and up to 128 of its columns. As consecutive bags are consecutive in `indices`, it
streams their lookups without a stop at the bags' ends, some kilobytes of rows at a time, and copies the rows of the
next steps to shared memory meanwhile. A step is one product: a matrix with a line a bag, which holds the weights of the
bag's own lookups and zeros elsewhere, times the rows. In float32, which the tensor cores would round, the same product
is made of ordinary multiplications and additions.

Zero times a row that is not finite is no number, so that such a row would spoil the other bags of the program. If any
sum is not finite, the program therefore takes its bags again, one by one.

A small tensor tells where the blocks of columns lie, those of the widest tables first, which take the longest. The
kernel holds one copy of the loop for each distinct width, so that addresses are known to the compiler.

On an H200 it takes 129 us, and so nearly twice what reading the rows does: they go through shared memory on their way
to the tensor cores, and 159 registers a thread leave few warps to wait for them. Kernels that add the rows up in
registers, as that of problem 3 does, took 131 to 199 us: a lookup's weight and the mask of a group that ends with its
bag cost more instructions than the products save.

No bag is divided. A giant one keeps its program busy for long, with STAGES - 1 steps of rows under way, and the other
bags of that program are stored when it is done. No other program waits for it.
"""

import torch
import triton
import triton.language as tl
from torch import nn

# The least that a matrix product takes.
BAGS = 16
MOST_COLUMNS = 128
FEWEST_COLUMNS = 16
# Rows of a step: as many as hold this many bytes, within bounds.
BYTES_A_STEP = 8192
FEWEST_LOOKUPS = 16
MOST_LOOKUPS = 128
# Steps under way, the one being multiplied included.
STAGES = 5
# Rows that are not whole vectors of 16 bytes are read number by number, which is much code: few steps, and small ones.
FEWEST_STAGES = 2
WARPS = 2
# Rows added up at once where bags are taken one by one.
ROWS = 16


@triton.jit
def locate(plan, number, output, ALIGNED: tl.constexpr):
    """Return a block of columns: its address, its place in the first row of the output, its kind and its table."""
    line = plan + number * 4
    weight = tl.load(line).to(tl.pointer_type(output.dtype.element_ty))
    target = output + tl.load(line + 1)
    if ALIGNED:
        weight = tl.multiple_of(weight, 16)
        target = tl.multiple_of(target, 16)
    return weight, target, tl.load(line + 2), tl.load(line + 3)


@triton.jit
def sum_together(
    weight,
    indices,
    offsets,
    sample_weights,
    bag,
    batch,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BAGS: tl.constexpr,
    LOOKUPS: tl.constexpr,
    STAGES: tl.constexpr,
    OPERAND: tl.constexpr,
):
    """Return the sums of BAGS bags, [BAGS, BLOCK]; if a row is not finite, neither are those of other bags."""
    each = bag + tl.arange(0, BAGS)
    first = tl.load(offsets + bag)
    # Bags beyond the table's last are empty.
    start = (tl.load(offsets + tl.minimum(each, batch)) - first).to(tl.int32)
    end = (tl.load(offsets + tl.minimum(each + 1, batch)) - first).to(tl.int32)
    count = tl.max(end)
    column = tl.arange(0, BLOCK)
    lookup = tl.arange(0, LOOKUPS)
    indices += first
    sample_weights += first
    next_factor = tl.load(sample_weights + lookup, mask=lookup < count, other=0.0)
    total = tl.zeros([BAGS, BLOCK], tl.float32)
    for done in tl.range(0, count, LOOKUPS, num_stages=STAGES):
        here = done + lookup
        factor = next_factor
        next_factor = tl.load(sample_weights + here + LOOKUPS, mask=here + LOOKUPS < count, other=0.0)
        row = tl.load(indices + here, mask=here < count, other=0)
        real = (here < count)[:, None] if WIDTH == BLOCK else (here < count)[:, None] & (column < WIDTH)[None, :]
        rows = tl.load(weight + row[:, None] * DIM + column[None, :], mask=real, other=0.0)
        mine = (start[:, None] <= here[None, :]) & (here[None, :] < end[:, None])
        share = tl.where(mine, factor[None, :], 0.0)
        total = tl.dot(share.to(OPERAND), rows.to(OPERAND), total, input_precision="ieee")
    return total


@triton.jit
def sum_bag(
    weight,
    indices,
    sample_weights,
    start,
    end,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Return the sum of one bag, [BLOCK], whatever other bags look up."""
    column = tl.arange(0, BLOCK)
    lookup = start + tl.arange(0, ROWS)
    row = tl.load(indices + lookup, mask=lookup < end, other=0)
    total = tl.zeros([BLOCK], tl.float32)
    while start < end:
        real = (lookup < end)[:, None] & (column < WIDTH)[None, :]
        rows = tl.load(weight + row[:, None] * DIM + column[None, :], mask=real, other=0.0)
        factor = tl.load(sample_weights + lookup, mask=lookup < end, other=0.0)
        start += ROWS
        lookup += ROWS
        row = tl.load(indices + lookup, mask=lookup < end, other=0)
        total += tl.sum(rows.to(tl.float32) * factor.to(tl.float32)[:, None], axis=0)
    return total


@triton.jit
def sum_block(
    weight,
    indices,
    offsets,
    sample_weights,
    target,
    bag,
    batch,
    COLUMNS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BAGS: tl.constexpr,
    LOOKUPS: tl.constexpr,
    STAGES: tl.constexpr,
    ROWS: tl.constexpr,
    OPERAND: tl.constexpr,
):
    """Sum WIDTH columns of BAGS bags of one table, from `bag` on."""
    column = tl.arange(0, BLOCK)
    total = sum_together(
        weight, indices, offsets, sample_weights, bag, batch, DIM, WIDTH, BLOCK, BAGS, LOOKUPS, STAGES, OPERAND
    )
    if tl.min((tl.abs(total) < float("inf")).to(tl.int32)) == 1:
        each = bag + tl.arange(0, BAGS)
        place = target + each[:, None].to(tl.int64) * COLUMNS + column[None, :]
        tl.store(place, total.to(target.dtype.element_ty), mask=(each < batch)[:, None] & (column < WIDTH)[None, :])
    else:
        last = tl.minimum(bag + BAGS, batch)
        end = tl.load(offsets + bag)
        while bag < last:
            start = end
            end = tl.load(offsets + bag + 1)
            pooled = sum_bag(weight, indices, sample_weights, start, end, DIM, WIDTH, BLOCK, ROWS)
            place = target + bag.to(tl.int64) * COLUMNS + column
            tl.store(place, pooled.to(target.dtype.element_ty), mask=column < WIDTH)
            bag += 1


@triton.jit(do_not_specialize=["batch", "groups"])
def sum_bags(
    plan,
    indices,
    offsets,
    sample_weights,
    output,
    batch,
    groups,
    COLUMNS: tl.constexpr,
    DIMS: tl.constexpr,
    WIDTHS: tl.constexpr,
    BLOCKS: tl.constexpr,
    LOOKUPS: tl.constexpr,
    ALIGNED: tl.constexpr,
    BAGS: tl.constexpr,
    STAGES: tl.constexpr,
    ROWS: tl.constexpr,
    OPERAND: tl.constexpr,
):
    """Sum one of the `groups` groups of bags, in one block of columns."""
    weight, target, kind, table = locate(plan, tl.program_id(0) // groups, output, ALIGNED)
    bag = tl.program_id(0) % groups * BAGS
    for number in tl.static_range(len(DIMS)):
        if kind == number:
            sum_block(
                weight, indices, offsets + table * batch, sample_weights, target, bag, batch,
                COLUMNS, DIMS[number], WIDTHS[number], BLOCKS[number], BAGS, LOOKUPS[number], STAGES, ROWS, OPERAND,
            )  # fmt: skip


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )
        self.columns = sum(dims)
        # A kind of block: the width of its table and its own.
        self.kinds = sorted({(dim, min(dim - first, MOST_COLUMNS)) for dim in dims for first in blocks_of(dim)})
        self.dims = tuple(dim for dim, _ in self.kinds)
        self.widths = tuple(width for _, width in self.kinds)
        self.blocks = tuple(max(FEWEST_COLUMNS, triton.next_power_of_2(width)) for width in self.widths)
        self.addresses: list[int] = []
        self.plan = torch.empty(0)
        self.lookups: tuple[int, ...] = ()
        self.aligned = False

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        self.update_plan()
        batch = (offsets.numel() - 1) // len(self.tables)
        output = self.tables[0].new_empty(batch, self.columns)
        groups = triton.cdiv(batch, BAGS)
        sum_bags[self.plan.shape[0] * groups,](
            self.plan, indices, offsets, sample_weights, output, batch, groups,
            COLUMNS=self.columns, DIMS=self.dims, WIDTHS=self.widths, BLOCKS=self.blocks, LOOKUPS=self.lookups,
            ALIGNED=self.aligned, BAGS=BAGS, STAGES=STAGES if self.aligned else FEWEST_STAGES, ROWS=ROWS,
            OPERAND=operand_dtype(output), num_warps=WARPS,
        )  # fmt: skip
        return output

    def update_plan(self) -> None:
        """Note where the tables lie, whenever one of them has moved.

        A line a block of columns: its address, its first column in the output, its kind's number, its table.
        """
        addresses = [table.data_ptr() for table in self.tables]
        if addresses == self.addresses:
            return
        dims = [table.shape[1] for table in self.tables]
        item = self.tables[0].element_size()
        self.aligned = all(number % 16 == 0 for number in addresses + [dim * item for dim in dims])
        most = MOST_LOOKUPS if self.aligned else FEWEST_LOOKUPS
        self.lookups = tuple(max(FEWEST_LOOKUPS, min(most, BYTES_A_STEP // (block * item))) for block in self.blocks)
        lines = [
            (
                addresses[t] + first * item,
                sum(dims[:t]) + first,
                self.kinds.index((dims[t], min(dims[t] - first, MOST_COLUMNS))),
                t,
            )
            for t in sorted(range(len(dims)), key=lambda t: -dims[t])
            for first in blocks_of(dims[t])
        ]
        self.plan = torch.tensor(lines).to(self.tables[0].device)
        self.addresses = addresses


def blocks_of(dim: int) -> range:
    """Return the first column of each block of a table."""
    return range(0, dim, MOST_COLUMNS)


def operand_dtype(tensor: torch.Tensor) -> tl.dtype:
    """Return the dtype to multiply in: off the GPU float32, since Triton's interpreter multiplies no bfloat16."""
    half = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    return half.get(tensor.dtype, tl.float32) if tensor.is_cuda else tl.float32
