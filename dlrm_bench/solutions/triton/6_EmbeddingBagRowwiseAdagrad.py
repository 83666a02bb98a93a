"""Row-wise Adagrad on an embedding bag's table: a counting sort of the lookups by row, then one pass over the table.

Memory bounds it. At full size the table of 67 MB is read and written, and the gradient of 17 MB and the indices of 10
MB are read (bfloat16): 162 MB, 38 microseconds at 4.24 TB/s. On top of that each of 1.25 million lookups fetches a
gradient row of 256 bytes, 320 MB from L2, which holds the whole gradient: about 60 microseconds.

The rows of the result need no order, so three short launches replace a sort: one counts the lookups of each row, and
the count before its own is a lookup's rank; one gives each row a place in a list of bags; one fills the list. The last
launch walks the table. A program is one warp with a run of rows, whose bags follow each other in the list: it asks for
the gradient rows of UNROLL bags at once, adds them up, and finishes a table row wherever its bags end.

Hot rows with thousands of bags have a part of the list of their own, in chunks of HOT bags, to which the first programs
of the last launch turn. They leave a float32 sum of each chunk, and whoever is last at a row adds these up.
"""

import torch
import triton
import triton.language as tl
from torch import nn

# Rows with more lookups than this are hot, and this is the size of their chunks.
HOT = 64
HOT_PROGRAMS = 4096
# Gradient rows, or sums of chunks, that a program for hot rows has under way.
HOT_UNROLL = 16
# Table rows of one program; a divisor of PLACE_BLOCK.
RUN = 16
# Gradient rows that a program for other rows has under way: as many as hold this many bytes, within bounds.
BYTES_UNDER_WAY = 2048
FEWEST_ROWS = 2
MOST_ROWS = 4
# Less work than this, in lookups and table rows, is done in tiles: some table rows, TILE_UNROLL bags of each,
# and all columns.
FEWEST_STREAMED = 32_768
TILE_ELEMENTS = 8192
TILE_UNROLL = 4
TILE_WARPS = 4
COUNT_BLOCK = 512
COUNT_WARPS = 4
PLACE_BLOCK = 1024
PLACE_WARPS = 4
COLUMNS_OF_A_WARP = 1024


@triton.jit(do_not_specialize=["lookups", "bags"])
def count_lookups(indices, offsets, counts, ranks, bag_of, lookups, bags, BLOCK: tl.constexpr):
    """Count the lookups of each row; note the rank of each lookup in its row, and its bag."""
    lookup = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = lookup < lookups
    row = tl.load(indices + lookup, mask=inside, other=0)
    rank = tl.atomic_add(counts + row, 1, mask=inside, sem="relaxed")
    # The last bag that starts at or before the lookup.
    bag = tl.zeros([BLOCK], tl.int32)
    candidates = bags
    while candidates > 1:
        half = candidates // 2
        bag = tl.where(tl.load(offsets + bag + half) <= lookup, bag + half, bag)
        candidates -= half
    tl.store(ranks + lookup, rank, mask=inside)
    tl.store(bag_of + lookup, bag, mask=inside)


@triton.jit(do_not_specialize=["lookups", "rows"])
def place_rows(counts, starts, cursors, lookups, rows, HOT: tl.constexpr, BLOCK: tl.constexpr):
    """Give each row a place in the list: hot rows whole chunks behind the first `lookups` entries, others before."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.load(counts + row, mask=row < rows, other=0)
    size = tl.where(count > HOT, 0, count)
    chunks = tl.where(count > HOT, (count + HOT - 1) // HOT, 0)
    # Blocks take their parts of the list in any order.
    start = tl.atomic_add(cursors, tl.sum(size), sem="relaxed") + tl.cumsum(size) - size
    chunk = tl.atomic_add(cursors + 1, tl.sum(chunks), sem="relaxed") + tl.cumsum(chunks) - chunks
    start = tl.where(count > HOT, lookups + chunk.to(tl.int64) * HOT, start.to(tl.int64))
    tl.store(starts + row, start, mask=row < rows)


@triton.jit(do_not_specialize=["lookups"])
def list_bags(indices, ranks, bag_of, starts, listed, chunk_rows, lookups, HOT: tl.constexpr, BLOCK: tl.constexpr):
    """Put each lookup's bag in the list, and at each chunk's first lookup note the chunk's row."""
    lookup = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = lookup < lookups
    row = tl.load(indices + lookup, mask=inside, other=0)
    place = tl.load(starts + row, mask=inside, other=0) + tl.load(ranks + lookup, mask=inside, other=0)
    tl.store(listed + place, tl.load(bag_of + lookup, mask=inside, other=0), mask=inside)
    begins = inside & (place >= lookups) & ((place - lookups) % HOT == 0)
    tl.store(chunk_rows + (place - lookups) // HOT, row.to(tl.int32), mask=begins)


@triton.jit
def step_hot_rows(
    gradient,
    weight,
    momentum,
    counts,
    starts,
    cursors,
    arrivals,
    listed,
    chunk_rows,
    sums,
    output,
    lookups,
    hot_programs,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HOT: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Sum every `hot_programs`-th chunk; where it is the last of its row to be summed, finish the row."""
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    each = tl.arange(0, UNROLL)
    chunks = tl.load(cursors + 1)
    chunk = tl.program_id(0)
    while chunk < chunks:
        row = tl.load(chunk_rows + chunk).to(tl.int64)
        count = tl.load(counts + row)
        first = ((tl.load(starts + row) - lookups) // HOT).to(tl.int32)
        parts = (count + HOT - 1) // HOT
        size = tl.minimum(count - (chunk - first) * HOT, HOT)
        bags = listed + lookups + chunk.to(tl.int64) * HOT
        total = tl.zeros([BLOCK], tl.float32)
        done = 0
        while done < size:
            known = done + each < size
            bag = tl.load(bags + done + each, mask=known, other=0).to(tl.int64)
            rows = tl.load(
                gradient + bag[:, None] * DIM + column[None, :], mask=known[:, None] & inside[None, :], other=0.0
            )
            total += tl.sum(rows.to(tl.float32), axis=0)
            done += UNROLL
        tl.store(sums + chunk.to(tl.int64) * DIM + column, total, mask=inside)
        # All lanes' stores come before the arrival, and the last arrival before the loads of all sums.
        tl.debug_barrier()
        arrived = tl.atomic_add(arrivals + first, 1, sem="acq_rel")
        if arrived == parts - 1:
            tl.debug_barrier()
            total = tl.zeros([BLOCK], tl.float32)
            done = 0
            while done < parts:
                known = done + each < parts
                part = (first + done + each).to(tl.int64)
                total += tl.sum(
                    tl.load(
                        sums + part[:, None] * DIM + column[None, :],
                        mask=known[:, None] & inside[None, :],
                        other=0.0,
                        cache_modifier=".cg",
                    ),
                    axis=0,
                )
                done += UNROLL
            old = tl.load(weight + row * DIM + column, mask=inside, other=0.0).to(tl.float32)
            grown = tl.load(momentum + row).to(tl.float32) + tl.sum(total * total) / DIM
            new = old - total * (learning_rate / (tl.sqrt_rn(grown) + eps))
            tl.store(output + row * (DIM + 1) + column, new.to(output.dtype.element_ty), mask=inside)
            tl.store(output + row * (DIM + 1) + DIM, grown.to(output.dtype.element_ty))
        chunk += hot_programs


@triton.jit
def step_run(
    gradient,
    weight,
    momentum,
    counts,
    starts,
    listed,
    output,
    first,
    rows,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HOT: tl.constexpr,
    RUN: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Finish the rows of a run that are not hot."""
    LOOKUPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)[:UNROLL]
    # Beyond every lookup of the run: no row ends there.
    NEVER: tl.constexpr = 1 << 30
    column = tl.arange(0, BLOCK)
    inside = None if DIM == BLOCK else column < DIM
    stop = tl.minimum(first + RUN, rows)
    row = first + tl.arange(0, RUN)
    count_of = tl.load(counts + row, mask=row < stop, other=HOT + 1)
    remaining = tl.sum(tl.where(count_of > HOT, 0, count_of))
    # Rows that are not hot follow each other in the list.
    place = tl.load(starts + row, mask=count_of <= HOT, other=9223372036854775807)
    bag_at = listed + tl.where(remaining > 0, tl.min(place), 0)

    here = first
    count = tl.load(counts + here)
    next_count = tl.load(counts + here + 1, mask=here + 1 < stop, other=0)
    # How far ahead of the current step the current row's bags end.
    ahead = tl.where(count > HOT, 0, count)
    # The old weights of three rows are under way, as a row without lookups takes no time.
    second = tl.minimum(here + 1, stop - 1).to(tl.int64)
    third = tl.minimum(here + 2, stop - 1).to(tl.int64)
    old = tl.load(weight + here.to(tl.int64) * DIM + column, mask=inside)
    next_old = tl.load(weight + second * DIM + column, mask=inside)
    third_old = tl.load(weight + third * DIM + column, mask=inside)
    old_momentum = tl.load(momentum + here)
    next_momentum = tl.load(momentum + second)
    third_momentum = tl.load(momentum + third)
    bag = [tl.load(bag_at + each, mask=each < remaining, other=0) for each in LOOKUPS]
    total = tl.zeros([BLOCK], tl.float32)
    while here < stop:
        # Beyond the last lookup the gradient's first row is read, and added to no row.
        gradients = [tl.load(gradient + one.to(tl.int64) * DIM + column, mask=inside) for one in bag]
        bag_at += UNROLL
        remaining -= UNROLL
        bag = [tl.load(bag_at + each, mask=each < remaining, other=0) for each in LOOKUPS]
        for step in tl.static_range(UNROLL):
            while ahead == step:
                if count <= HOT:
                    # What was read beyond the row must not count.
                    total = tl.where(column < DIM, total, 0.0)
                    grown = old_momentum.to(tl.float32) + tl.sum(total * total) / DIM
                    new = old.to(tl.float32) - total * (learning_rate / (tl.sqrt_rn(grown) + eps))
                    new_row = output + here.to(tl.int64) * (DIM + 1)
                    tl.store(new_row + column, new.to(output.dtype.element_ty), mask=inside)
                    tl.store(new_row + DIM, grown.to(output.dtype.element_ty))
                total = tl.zeros([BLOCK], tl.float32)
                here += 1
                count = next_count
                ahead += tl.where(here < stop, tl.where(count > HOT, 0, count), NEVER)
                next_count = tl.load(counts + here + 1, mask=here + 1 < stop, other=0)
                old = next_old
                next_old = third_old
                old_momentum = next_momentum
                next_momentum = third_momentum
                third = tl.minimum(here + 2, stop - 1).to(tl.int64)
                third_old = tl.load(weight + third * DIM + column, mask=inside)
                third_momentum = tl.load(momentum + third)
            total += gradients[step].to(tl.float32)
        ahead -= UNROLL


@triton.jit
def step_tile(
    gradient,
    weight,
    momentum,
    counts,
    starts,
    listed,
    output,
    first,
    rows,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HOT: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Finish those of ROWS rows that are not hot, side by side."""
    row = first + tl.arange(0, ROWS)[:, None, None]
    each = tl.arange(0, UNROLL)[None, :, None]
    column = tl.arange(0, BLOCK)[None, None, :]
    count = tl.load(counts + row, mask=row < rows, other=HOT + 1)
    ours = count <= HOT
    inside = ours & (column < DIM)
    bag_at = listed + tl.load(starts + row, mask=ours, other=0) + each
    remaining = tl.where(ours, count, 0) - each
    total = tl.zeros([ROWS, 1, BLOCK], tl.float32)
    longest = tl.max(remaining)
    while longest > 0:
        bag = tl.load(bag_at, mask=remaining > 0, other=0).to(tl.int64)
        gradients = tl.load(gradient + bag * DIM + column, mask=(remaining > 0) & inside, other=0.0)
        total += tl.sum(gradients.to(tl.float32), axis=1, keep_dims=True)
        bag_at += UNROLL
        remaining -= UNROLL
        longest -= UNROLL
    row = row.to(tl.int64)
    old = tl.load(weight + row * DIM + column, mask=inside, other=0.0).to(tl.float32)
    grown = tl.load(momentum + row, mask=ours, other=0.0).to(tl.float32)
    grown += tl.sum(total * total, axis=2, keep_dims=True) / DIM
    new = old - total * (learning_rate / (tl.sqrt_rn(grown) + eps))
    tl.store(output + row * (DIM + 1) + column, new.to(output.dtype.element_ty), mask=inside)
    tl.store(output + row * (DIM + 1) + DIM, grown.to(output.dtype.element_ty), mask=ours)


@triton.jit(do_not_specialize=["lookups", "rows", "hot_programs"])
def step_rows(
    gradient,
    weight,
    momentum,
    counts,
    starts,
    cursors,
    arrivals,
    listed,
    chunk_rows,
    sums,
    output,
    lookups,
    rows,
    hot_programs,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HOT: tl.constexpr,
    HOT_UNROLL: tl.constexpr,
    RUN: tl.constexpr,
    UNROLL: tl.constexpr,
    TILED: tl.constexpr,
):
    """Step the hot rows in the first programs, which take the longest, and all others in the rest."""
    if tl.program_id(0) < hot_programs:
        step_hot_rows(
            gradient, weight, momentum, counts, starts, cursors, arrivals, listed, chunk_rows, sums, output,
            lookups, hot_programs, learning_rate, eps, DIM, BLOCK, HOT, HOT_UNROLL,
        )  # fmt: skip
    else:
        first = (tl.program_id(0) - hot_programs) * RUN
        if TILED:
            step_tile(
                gradient, weight, momentum, counts, starts, listed, output, first, rows, learning_rate, eps,
                DIM, BLOCK, HOT, RUN, UNROLL,
            )  # fmt: skip
        else:
            step_run(
                gradient, weight, momentum, counts, starts, listed, output, first, rows, learning_rate, eps,
                DIM, BLOCK, HOT, RUN, UNROLL,
            )  # fmt: skip


class ModelNew(nn.Module):
    momentum: torch.Tensor

    def __init__(self, rows: int, dim: int, learning_rate: float, eps: float, momentum_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        self.register_buffer("momentum", torch.rand(rows) * momentum_scale)
        self.learning_rate = learning_rate
        self.eps = eps

    def forward(self, gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        (rows, dim), lookups, bags = self.weight.shape, indices.numel(), offsets.numel() - 1
        # Each hot row has more than HOT lookups, so that all of them have at most this many chunks.
        most_chunks = 2 * lookups // HOT
        integers = {"dtype": torch.int32, "device": gradient.device}
        counts, cursors, arrivals = torch.zeros(rows + 2 + most_chunks, **integers).split([rows, 2, most_chunks])
        starts = torch.empty(rows, dtype=torch.int64, device=gradient.device)
        ranks, bag_of = torch.empty(2, lookups, **integers)
        listed = torch.empty(lookups + most_chunks * HOT, **integers)
        chunk_rows = torch.empty(most_chunks, **integers)
        sums = torch.empty(most_chunks, dim, dtype=torch.float32, device=gradient.device)
        output = self.weight.new_empty(rows, dim + 1)
        count_grid = (triton.cdiv(lookups, COUNT_BLOCK),)
        if lookups:
            count_lookups[count_grid](
                indices, offsets, counts, ranks, bag_of, lookups, bags, BLOCK=COUNT_BLOCK, num_warps=COUNT_WARPS
            )
        place_rows[triton.cdiv(rows, PLACE_BLOCK),](
            counts, starts, cursors, lookups, rows, HOT=HOT, BLOCK=PLACE_BLOCK, num_warps=PLACE_WARPS
        )
        if lookups:
            list_bags[count_grid](
                indices, ranks, bag_of, starts, listed, chunk_rows, lookups,
                HOT=HOT, BLOCK=COUNT_BLOCK, num_warps=COUNT_WARPS,
            )  # fmt: skip
        block = triton.next_power_of_2(dim)
        tiled = lookups + rows < FEWEST_STREAMED
        unroll = max(FEWEST_ROWS, min(MOST_ROWS, BYTES_UNDER_WAY // (block * gradient.element_size())))
        tile_rows = max(1, TILE_ELEMENTS // (TILE_UNROLL * block))
        run, unroll, warps = (tile_rows, TILE_UNROLL, TILE_WARPS) if tiled else (RUN, unroll, 1)
        hot_programs = min(HOT_PROGRAMS, most_chunks)
        step_rows[hot_programs + triton.cdiv(rows, run),](
            gradient, self.weight, self.momentum, counts, starts, cursors, arrivals, listed, chunk_rows, sums, output,
            lookups, rows, hot_programs, self.learning_rate, self.eps,
            DIM=dim, BLOCK=block, HOT=HOT, HOT_UNROLL=HOT_UNROLL, RUN=run, UNROLL=unroll, TILED=tiled,
            num_warps=max(warps, min(16, block // COLUMNS_OF_A_WARP)),
        )  # fmt: skip
        return output
