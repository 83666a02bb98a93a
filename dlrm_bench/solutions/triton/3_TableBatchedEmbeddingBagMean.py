"""Table-batched bags, mean: every program streams an equal share of lookups and bags, what is cut is joined at the end.

The caches bound it. At full size 3.6 million lookups of 256 bytes (bfloat16) carry 910 MB from L2 and L1 to the SMs. An
H200 takes 72 microseconds to read these rows in this order and to do nothing else; rows of 256 bytes at random out of
L2 come at 8.3 TB/s. The distinct rows, the output and the indices, 0.2 GB from and to device memory, would take 50.
Mean lengths of 1.6 to 37 make equal numbers of bags unequal work.

A bag counts as much as a lookup, and a share is the same number of both, to the letter, so that the longest bag holds
up nobody. There are as many shares as warps that the GPU holds at once, or a few times as many, so that all of them end
at about the same time. A program is one warp. It finds its bags by a search in `offsets`, and as consecutive bags are
consecutive in `indices`, it streams their lookups without a stop at the bags' ends: it asks for the rows of UNROLL
lookups and the indices of the next UNROLL before the first row is needed, then adds the rows up and stores the mean
wherever a bag ends, straight into the table's columns of the output. The sums of a bag that a share cuts go to a
buffer. A second launch, which waits on the GPU for the end of the first, adds them up and divides them.

What a warp issues and waits for counts as much as what it reads. One load takes the indices of UNROLL lookups, a lane
each, and shuffles hand each to all lanes. The end of the next bag is read when a bag ends and looked at when the next
one ends, so that nobody waits for it. bfloat16 numbers are read in words of two, which a shift and a mask make float32.
With these three and twice as many rows under way a call takes 132 microseconds on an H200, without them 144.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Rows that a program has under way, at most 16: as many as its registers hold.
UNROLL = 16
UNROLL_OF_FLOAT32 = 8
# With so many registers a thread, an SM holds as many warps as it can hold blocks.
MAX_REGISTERS = 64
WARPS_PER_SM = 32
# Lookups and bags of one program, at most.
LARGEST_SHARE = 512
MOST_COLUMNS = 128
# Bags that the search looks at in one round.
PROBES = 128
# Shares of one program of the second launch, and pieces of a bag that it has under way.
JOINED = 4
PIECES = 4
# Less work than this, in lookups and bags, is done in tiles, by one launch that does not search.
FEWEST_STREAMED = 131_072
TILE_BAGS = 8
TILE_ROWS = 4
TILE_WARPS = 4
# There bags of this mean length have a program of their own, which reads LONG_ROWS rows at a time.
LONG = 1024
LONG_ROWS = 64
LONG_WARPS = 8


@triton.jit
def first_bag(offsets, low, high, position, PROBES: tl.constexpr):
    """Return the first bag of low..high that ends at a position or after it, or high."""
    while low < high:
        stride = (high - low + PROBES - 1) // PROBES
        probe = low + tl.arange(0, PROBES) * stride
        before = tl.load(offsets + probe + 1, mask=probe < high, other=position) + probe < position
        count = tl.sum(before.to(tl.int32))
        high = tl.minimum(low + count * stride, high)
        low = tl.where(count > 0, low + (count - 1) * stride + 1, high)
    return low


@triton.jit
def numbers(loaded):
    """Return what was loaded in float32; words of 32 bits are two bfloat16 numbers each, the low one first."""
    if loaded.dtype == tl.uint32:
        low = (loaded << 16).to(tl.float32, bitcast=True)
        high = (loaded & 0xFFFF0000).to(tl.float32, bitcast=True)
        return tl.interleave(low, high)
    else:
        return loaded.to(tl.float32)


@triton.jit(do_not_specialize=["batch", "lookups", "share"])
def average_shares(
    weight,
    first_rows,
    indices,
    offsets,
    output,
    pieces,
    cuts,
    batch,
    lookups,
    share,
    TABLES: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    UNROLL: tl.constexpr,
    PROBES: tl.constexpr,
    PDL: tl.constexpr,
):
    """Average BLOCK columns of the rows of each bag in a share, or sum those of a piece of a bag.

    `weight` holds float32, float16 or bfloat16 numbers, or words of two bfloat16 numbers.

    All lookups and ends of bags stand in one line: the lookups of bag 0, its end, the lookups of bag 1, and so on. A
    share is `share` positions of it. Row 2p of `pieces` is for the bag that was opened before share p, row 2p + 1 for
    the bag that p opens and a later share closes, whose number is `cuts[p]`, or -1 if there is none.
    """
    LOOKUPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)[:UNROLL]
    LANES: tl.constexpr = triton.next_power_of_2(UNROLL)
    PER_WORD: tl.constexpr = 2 if weight.dtype.element_ty == tl.uint32 else 1
    # Beyond every lookup of the share: no bag ends there.
    NEVER: tl.constexpr = 1 << 30
    if PDL:
        gdc_launch_dependents()
    bags = batch * TABLES
    program = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    word = tl.program_id(1) * (BLOCK // PER_WORD) + tl.arange(0, BLOCK // PER_WORD)
    # Columns beyond the row are neither read nor stored, and whole blocks need no mask.
    inside = None if DIM % BLOCK == 0 else column < DIM
    inside_row = None if DIM % BLOCK == 0 else word < DIM // PER_WORD
    piece = pieces + 2 * program.to(tl.int64) * DIM + column

    position = program.to(tl.int64) * share
    bag = first_bag(offsets, tl.full([], 0, tl.int32), bags, position, PROBES)
    last = first_bag(offsets, bag, tl.minimum(bag + share, bags), position + share, PROBES)
    start = position - bag
    limit = tl.minimum(position + share - last, lookups)
    opened_before = tl.load(offsets + bag) < start
    closed_later = (last < bags) & ((tl.load(offsets + last) < limit) | (opened_before & (last == bag)))
    head = tl.where(opened_before, bag, -1)
    stop = last + closed_later.to(tl.int32)
    tl.store(cuts + program, tl.where(closed_later & (last != head), last, -1))

    # The part of the share in one table; few shares reach into the next.
    while bag < stop:
        table = bag // batch
        table_stop = tl.minimum((table + 1) * batch, stop)
        rows_of_table = weight + tl.load(first_rows + table) * (DIM // PER_WORD) + word
        # Where the table's columns of output row 0 would be if its first bag were bag 0.
        target = output + (table - table.to(tl.int64) * batch * TABLES) * DIM + column

        # From here on lookups are counted from `start`.
        table_limit = tl.minimum(tl.load(offsets + table_stop), limit)
        lookup = indices + 2 * start + 2 * tl.arange(0, LANES)
        remaining = (table_limit - start).to(tl.int32) - tl.arange(0, LANES)
        length = (tl.minimum(tl.load(offsets + bag + 1), table_limit) - start).to(tl.int32)
        end = length
        # The next bag's end as it was loaded: what looks at it too early waits for it.
        next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= table_stop, other=0)
        # How far ahead of the current step the current bag ends.
        ahead = end
        row = tl.load(lookup, mask=remaining > 0, other=0)
        total = tl.zeros([BLOCK], tl.float32)
        while bag < table_stop:
            # The row of each lane in all lanes; beyond the last lookup it is the table's first, and added to no bag.
            handed = [tl.gather(row, each + tl.arange(0, 1), 0).to(tl.int64) for each in LOOKUPS]
            rows = [tl.load(rows_of_table + one * (DIM // PER_WORD), mask=inside_row) for one in handed]
            lookup += 2 * UNROLL
            remaining -= UNROLL
            row = tl.load(lookup, mask=remaining > 0, other=0)
            for step in tl.static_range(UNROLL):
                while ahead == step:
                    # In a table only the first and the last bag of a share can be cut.
                    if (bag == head) | (bag == last):
                        tl.store(tl.where(bag == head, piece, piece + DIM), total, mask=inside)
                    else:
                        mean = total * (1.0 / tl.maximum(length, 1).to(tl.float32))
                        goal = target + bag.to(tl.int64) * (TABLES * DIM)
                        tl.store(goal, mean.to(output.dtype.element_ty), mask=inside)
                    total = tl.zeros([BLOCK], tl.float32)
                    bag += 1
                    length = (tl.minimum(next_end, table_limit) - start).to(tl.int32) - end
                    end += length
                    ahead += tl.where(bag < table_stop, length, NEVER)
                    next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= table_stop, other=0)
                total += numbers(rows[step])
            ahead -= UNROLL
        start = table_limit


@triton.jit(do_not_specialize=["batch", "shares", "share"])
def join_pieces(
    pieces,
    cuts,
    offsets,
    output,
    batch,
    shares,
    share,
    TABLES: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    JOINED: tl.constexpr,
    PIECES: tl.constexpr,
    PDL: tl.constexpr,
):
    """Add up BLOCK columns of the pieces of the bags that JOINED shares open and do not close."""
    opening = tl.program_id(0).to(tl.int64) * JOINED + tl.arange(0, JOINED)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    # The last share leaves no bag open.
    there = opening < shares - 1
    inside = column < DIM
    if PDL:
        gdc_wait()
    bag = tl.load(cuts + opening, mask=there, other=-1)
    # A bag that is cut has two pieces at least, which lie side by side.
    piece = pieces + (2 * opening + 1) * DIM + column
    total = tl.load(piece, mask=there & inside, other=0.0) + tl.load(piece + DIM, mask=there & inside, other=0.0)
    begin = tl.load(offsets + bag, mask=bag >= 0, other=0)
    end = tl.load(offsets + bag + 1, mask=bag >= 0, other=0)
    last = end + bag
    opening += 2
    while tl.max(last - opening * share) >= 0:
        for one in tl.static_range(PIECES):
            mask = ((opening + one) * share <= last) & inside
            total += tl.load(pieces + 2 * (opening + one) * DIM + column, mask=mask, other=0.0)
        opening += PIECES
    mean = total * (1.0 / tl.maximum(end - begin, 1).to(tl.float32))
    goal = output + ((bag % batch).to(tl.int64) * TABLES + bag // batch) * DIM + column
    tl.store(goal, mean.to(output.dtype.element_ty), mask=(bag >= 0) & inside)


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
    mean = total * (1.0 / tl.maximum(end - start, 1).to(tl.float32))
    goal = output + ((bag % batch).to(tl.int64) * TABLES + table) * DIM + column
    tl.store(goal, mean.to(output.dtype.element_ty), mask=inside)


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
        if work == 0:
            return output
        block = min(MOST_COLUMNS, triton.next_power_of_2(dim))
        blocks = triton.cdiv(dim, block)
        if work < FEWEST_STREAMED:
            long = indices.numel() > LONG * bags
            tile_bags, tile_rows, warps = (1, LONG_ROWS, LONG_WARPS) if long else (TILE_BAGS, TILE_ROWS, TILE_WARPS)
            average_tile[triton.cdiv(bags, tile_bags), blocks](
                self.weight, self.first_rows, indices, offsets, output, batch,
                TABLES=tables, DIM=dim, BLOCK=block, BAGS=tile_bags, ROWS=tile_rows, num_warps=warps,
            )  # fmt: skip
            return output
        gpu = torch.cuda.get_device_properties(self.weight.device) if self.weight.is_cuda else None
        at_once = WARPS_PER_SM * (gpu.multi_processor_count if gpu else 1)
        # From Hopper on a kernel's programs can be on their way before the kernel that they wait for ends.
        pdl = gpu is not None and gpu.major >= 9
        # Whole waves: a GPU half empty in the last one takes as long.
        waves = triton.cdiv(work * blocks, at_once * LARGEST_SHARE)
        share = triton.cdiv(work * blocks, at_once * waves)
        shares = triton.cdiv(work, share)
        pieces = self.weight.new_empty(2 * shares, dim, dtype=torch.float32)
        cuts = torch.empty(shares, dtype=torch.int32, device=self.weight.device)
        weight = self.weight.detach()
        if weight.dtype == torch.bfloat16 and dim % 2 == 0:
            weight = weight.view(torch.uint32)
        unroll = UNROLL_OF_FLOAT32 if weight.dtype == torch.float32 else UNROLL
        # The halves of the indices, the low one first: no table has 2^32 rows, and registers are dear.
        average_shares[shares, blocks](
            weight, self.first_rows, indices.view(torch.uint32), offsets, output, pieces, cuts, batch,
            indices.numel(), share,
            TABLES=tables, DIM=dim, BLOCK=block, UNROLL=unroll, PROBES=PROBES, PDL=pdl,
            num_warps=1, maxnreg=MAX_REGISTERS,
        )  # fmt: skip
        if shares > 1:
            join_pieces[triton.cdiv(shares - 1, JOINED), blocks](
                pieces, cuts, offsets, output, batch, shares, share,
                TABLES=tables, DIM=dim, BLOCK=block, JOINED=JOINED, PIECES=PIECES, PDL=pdl, num_warps=JOINED,
                **({"launch_pdl": True} if pdl else {}),
            )  # fmt: skip
        return output
