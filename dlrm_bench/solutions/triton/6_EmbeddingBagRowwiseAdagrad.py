"""Row-wise Adagrad on an embedding bag's table: a counting sort of the lookups by row, then one walk over the table.

Memory bounds it. At full size the table of 67 MB is read and written, and the gradient of 17 MB and the indices of 10
MB are read (bfloat16): 162 MB, 38 us at 4.24 TB/s.

The rows of the result need no order, so three short launches replace a sort: one counts the lookups of each row, and
the count before its own is a lookup's rank; one gives each row a place in a list of bags; one fills the list. The last
launch walks the table. A program is one warp, which finishes some rows side by side, so that a reduction, a root and a
division serve them all; the second launch has put each block of rows in order of their lookups, so that they take about
as many steps each.

Hot rows with hundreds of bags have a part of the list of their own, in chunks of HOT bags, to which the first programs
of the last launch turn. They leave a float32 sum of each chunk, and whoever is last at a row adds these up.

On an H200 it takes 177 us: 36 to count, 16 to place, 33 to list and 113 to walk, less what overlaps, since from Hopper
on each launch starts while the one before it ends. Four fifths of the floor are out of reach. 1.25 million lookups
fetch a gradient row of 256 bytes each: 320 MB from L2, which at 8.3 TB/s are another 39 us. And the sort is 1.25
million atomics, and as many stores, all scattered: most of the 36 and 33 us.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Rows with more lookups than this are hot, and this is the size of their chunks.
HOT = 128
HOT_PROGRAMS = 4096
# Elements of gradient rows, or of sums of chunks, that a program for hot rows has under way.
HOT_ELEMENTS = 2048
# Elements of the table rows of a program for other rows, and the most rows; a divisor of PLACE_BLOCK.
TILE_ELEMENTS = 1024
MOST_TILE_ROWS = 32
COUNT_BLOCK = 512
COUNT_WARPS = 4
SPREAD = 256  # bags among which a block of lookups is looked for first
PLACE_BLOCK = 1024
PLACE_WARPS = 4
COLUMNS_OF_A_WARP = 1024


@triton.jit
def follow(CHAINED: tl.constexpr):
    """Let the next launch start, and wait until the one before has ended."""
    if CHAINED:
        gdc_launch_dependents()
        gdc_wait()


@triton.jit(do_not_specialize=["lookups", "bags"])
def count_lookups(
    indices,
    offsets,
    counts,
    ranks,
    bag_of,
    lookups,
    bags,
    BLOCK: tl.constexpr,
    SPREAD: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Count the lookups of each row; note the rank of each lookup in its row, and its bag."""
    follow(CHAINED)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    lookup = first + tl.arange(0, BLOCK)
    inside = lookup < lookups
    row = tl.load(indices + lookup, mask=inside, other=0)
    rank = tl.atomic_add(counts + row, 1, mask=inside, sem="relaxed")
    # The bags of the block lie between two of some that are spread over all.
    stride = (bags + SPREAD - 1) // SPREAD
    spread = tl.arange(0, SPREAD) * stride
    start = tl.load(offsets + spread, mask=spread < bags, other=9223372036854775807)
    low = (tl.sum((start <= first).to(tl.int32)) - 1) * stride
    last = tl.minimum(first + BLOCK, lookups) - 1
    high = tl.minimum(tl.sum((start <= last).to(tl.int32)) * stride, bags)
    # The last bag that starts at or before the lookup.
    bag = tl.zeros([BLOCK], tl.int32) + low
    candidates = high - low
    while candidates > 1:
        half = candidates // 2
        bag = tl.where(tl.load(offsets + bag + half) <= lookup, bag + half, bag)
        candidates -= half
    tl.store(ranks + lookup, rank, mask=inside)
    tl.store(bag_of + lookup, bag, mask=inside)


@triton.jit
def order(kind, BLOCK: tl.constexpr):
    """Return each row's spot in the order of kinds 0 to 7: a counting sort, four counters of 16 bits in a number."""
    EACH: tl.constexpr = 0x0001000100010001
    one = tl.full([BLOCK], 1, tl.int64) << (16 * (kind % 4)).to(tl.int64)
    low = tl.where(kind < 4, one, 0)
    high = tl.where(kind < 4, 0, one)
    low_total = tl.sum(low)
    high_total = tl.sum(high)
    # Multiplied by EACH, a counter is the sum of itself and those below.
    low_begin = low_total * EACH - low_total
    high_begin = high_total * EACH - high_total + ((low_total * EACH) >> 48) * EACH
    spot = tl.where(kind < 4, tl.cumsum(low) - low + low_begin, tl.cumsum(high) - high + high_begin)
    return ((spot >> (16 * (kind % 4)).to(tl.int64)) & 0xFFFF).to(tl.int32)


@triton.jit(do_not_specialize=["lookups", "rows"])
def place_rows(
    counts,
    cursor,
    starts,
    ordered_rows,
    ordered_starts,
    ordered_counts,
    lookups,
    rows,
    HOT: tl.constexpr,
    BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Give each row a place in the list: hot rows whole chunks behind the first `lookups` entries, others before.

    Then put the block's rows in order, those with many lookups first, hot ones and those past the table last.
    """
    follow(CHAINED)
    first = tl.program_id(0) * BLOCK
    row = first + tl.arange(0, BLOCK)
    count = tl.load(counts + row, mask=row < rows, other=0)
    hot = count > HOT
    # Chunks above, and lookups of other rows below. Blocks take their parts of the list in any order.
    both = tl.where(hot, ((count + HOT - 1) // HOT).to(tl.int64) << 32, count.to(tl.int64))
    place = tl.atomic_add(cursor, tl.sum(both), sem="relaxed") + tl.cumsum(both) - both
    start = tl.where(hot, lookups + (place >> 32) * HOT, place & 0xFFFFFFFF).to(starts.dtype.element_ty)
    tl.store(starts + row, start, mask=row < rows)
    idle = hot | (row >= rows)
    kind = (count <= 32).to(tl.int32) + (count <= 16) + (count <= 8) + (count <= 4) + (count <= 2) + (count <= 1)
    spot = first + order(tl.where(idle, 7, kind), BLOCK)
    tl.store(ordered_rows + spot, row)
    tl.store(ordered_starts + spot, start)
    tl.store(ordered_counts + spot, tl.where(idle, -1, count))


@triton.jit(do_not_specialize=["lookups"])
def list_bags(
    indices,
    ranks,
    bag_of,
    starts,
    listed,
    chunk_rows,
    lookups,
    HOT: tl.constexpr,
    BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Put each lookup's bag in the list, and at each chunk's first lookup note the chunk's row."""
    follow(CHAINED)
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
    cursor,
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
    chunks = (tl.load(cursor) >> 32).to(tl.int32)
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
def step_tile(
    gradient,
    weight,
    momentum,
    ordered_rows,
    ordered_starts,
    ordered_counts,
    listed,
    output,
    first,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Finish those of ROWS rows that are not hot, side by side, two lookups of each at a time."""
    column = tl.arange(0, BLOCK)[None, :]
    spot = first + tl.arange(0, ROWS)
    remaining = tl.load(ordered_counts + spot)
    longest = tl.max(remaining)
    if longest >= 0:
        row = tl.load(ordered_rows + spot).to(tl.int64)
        ours = remaining >= 0
        inside = ours[:, None] & (column < DIM)
        bag_at = listed + tl.load(ordered_starts + spot)
        bag = tl.load(bag_at, mask=remaining > 0, other=-1)
        other_bag = tl.load(bag_at + 1, mask=remaining > 1, other=-1)
        old = tl.load(weight + row[:, None] * DIM + column, mask=inside, other=0.0)
        grown = tl.load(momentum + row, mask=ours, other=0.0)
        total = tl.zeros([ROWS, BLOCK], tl.float32)
        while longest > 0:
            step = load_rows(gradient, bag, column, DIM)
            other_step = load_rows(gradient, other_bag, column, DIM)
            bag_at += 2
            remaining -= 2
            longest -= 2
            # The next bags are on their way while the gradient's rows are.
            bag = tl.load(bag_at, mask=remaining > 0, other=-1)
            other_bag = tl.load(bag_at + 1, mask=remaining > 1, other=-1)
            total += step.to(tl.float32)
            total += other_step.to(tl.float32)
        grown = grown.to(tl.float32)[:, None] + tl.sum(total * total, axis=1, keep_dims=True) / DIM
        new = old.to(tl.float32) - total * (learning_rate / (tl.sqrt_rn(grown) + eps))
        new_row = output + row[:, None] * (DIM + 1)
        tl.store(new_row + column, new.to(output.dtype.element_ty), mask=inside)
        tl.store(new_row + DIM, grown.to(output.dtype.element_ty), mask=ours[:, None])


@triton.jit
def load_rows(gradient, bag, column, DIM: tl.constexpr):
    """Return the gradient's rows of some bags, and zeros for -1."""
    inside = (bag >= 0)[:, None] & (column < DIM)
    return tl.load(gradient + bag.to(tl.int64)[:, None] * DIM + column, mask=inside, other=0.0)


@triton.jit(do_not_specialize=["lookups", "place_blocks", "hot_programs"])
def step_rows(
    gradient,
    weight,
    momentum,
    counts,
    cursor,
    arrivals,
    starts,
    ordered_rows,
    ordered_starts,
    ordered_counts,
    listed,
    chunk_rows,
    sums,
    output,
    lookups,
    place_blocks,
    hot_programs,
    learning_rate,
    eps,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HOT: tl.constexpr,
    HOT_UNROLL: tl.constexpr,
    ROWS: tl.constexpr,
    PLACE_BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Step the hot rows in the first programs, and all others in the rest, those with many lookups first."""
    if CHAINED:
        gdc_wait()
    if tl.program_id(0) < hot_programs:
        step_hot_rows(
            gradient, weight, momentum, counts, starts, cursor, arrivals, listed, chunk_rows, sums, output,
            lookups, hot_programs, learning_rate, eps, DIM, BLOCK, HOT, HOT_UNROLL,
        )  # fmt: skip
    else:
        tile = tl.program_id(0) - hot_programs
        first = tile % place_blocks * PLACE_BLOCK + tile // place_blocks * ROWS
        step_tile(
            gradient, weight, momentum, ordered_rows, ordered_starts, ordered_counts, listed, output,
            first, learning_rate, eps, DIM, BLOCK, ROWS,
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
        place_blocks = triton.cdiv(rows, PLACE_BLOCK)
        padded_rows, padded_lookups = place_blocks * PLACE_BLOCK, triton.cdiv(lookups, 16) * 16
        # Each hot row has more than HOT lookups, so that all of them have at most this many chunks.
        most_chunks = 2 * lookups // HOT
        # A multiple of 16 bytes, else what lies behind it is aligned for some inputs only, and kernels compile anew.
        listed_size = padded_lookups + most_chunks * HOT
        integers = {"dtype": torch.int32, "device": gradient.device}
        places = {"dtype": torch.int32 if listed_size < 2**31 else torch.int64, "device": gradient.device}
        zeros = torch.zeros(padded_rows + 2 + most_chunks, **integers)
        counts, cursor, arrivals = zeros.split([padded_rows, 2, most_chunks])
        cursor = cursor.view(torch.int64)
        starts, ordered_starts = torch.empty(2, padded_rows, **places)
        ordered_rows, ordered_counts = torch.empty(2, padded_rows, **integers)
        ranks, bag_of = torch.empty(2, padded_lookups, **integers)
        listed, chunk_rows = torch.empty(listed_size + most_chunks, **integers).split([listed_size, most_chunks])
        sums = torch.empty(most_chunks, dim, dtype=torch.float32, device=gradient.device)
        output = self.weight.new_empty(rows, dim + 1)
        chained = can_chain(gradient.device)
        chain = {"launch_pdl": True} if chained else {}
        count_grid = (triton.cdiv(lookups, COUNT_BLOCK),)
        if lookups:
            count_lookups[count_grid](
                indices, offsets, counts, ranks, bag_of, lookups, bags,
                BLOCK=COUNT_BLOCK, SPREAD=SPREAD, CHAINED=chained, num_warps=COUNT_WARPS, **chain,
            )  # fmt: skip
        place_rows[(place_blocks,)](
            counts, cursor, starts, ordered_rows, ordered_starts, ordered_counts, lookups, rows,
            HOT=HOT, BLOCK=PLACE_BLOCK, CHAINED=chained, num_warps=PLACE_WARPS, **chain,
        )  # fmt: skip
        if lookups:
            list_bags[count_grid](
                indices, ranks, bag_of, starts, listed, chunk_rows, lookups,
                HOT=HOT, BLOCK=COUNT_BLOCK, CHAINED=chained, num_warps=COUNT_WARPS, **chain,
            )  # fmt: skip
        block = triton.next_power_of_2(dim)
        tile_rows = max(1, min(MOST_TILE_ROWS, TILE_ELEMENTS // block))
        hot_programs = min(HOT_PROGRAMS, most_chunks)
        step_rows[(hot_programs + padded_rows // tile_rows,)](
            gradient, self.weight, self.momentum, counts, cursor, arrivals, starts,
            ordered_rows, ordered_starts, ordered_counts, listed, chunk_rows, sums, output,
            lookups, place_blocks, hot_programs, self.learning_rate, self.eps,
            DIM=dim, BLOCK=block, HOT=HOT, HOT_UNROLL=max(1, min(HOT, HOT_ELEMENTS // block)),
            ROWS=tile_rows, PLACE_BLOCK=PLACE_BLOCK, CHAINED=chained,
            num_warps=max(1, min(16, block // COLUMNS_OF_A_WARP)), **chain,
        )  # fmt: skip
        return output


@cache
def can_chain(device: torch.device) -> bool:
    """Return whether a launch can start there before the one before it has ended, and wait for it inside."""
    if device.type != "cuda" or torch.version.hip or triton.knobs.runtime.interpret:
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)
