"""Quantised embedding bag, 8-bit rows: one launch, every program streams an equal share of lookups and bags.

Memory and instructions bound it about equally. At full size 2.5 million lookups of 132 bytes carry 330 MB from L2 and
L1 to the SMs, and the distinct rows, the output and the indices carry about 0.15 GB from and to device memory: 35
microseconds at 4.24 TB/s. On an H200 reading the rows takes 60 microseconds, if nothing is done with them. A lookup
takes a warp some 25 instructions, 13 of them to dequantise the 4 codes of each lane, and a bag's end some 160: 85
microseconds if every scheduler issued one in every cycle.

Rows of 132 bytes straddle sectors, so the first call copies them apart: codes in rows of whole 32-byte sectors, scales
and biases in 4 bytes a row. A program is one warp. It finds its run of bags by a search in `offsets`, and since bags
that follow each other do so in `indices` too, it streams their lookups without a stop at the bags' ends. One
instruction reads several rows, 16 bytes a lane, and UNROLL of them are under way at all times: when a step's rows are
needed, those of the step UNROLL steps ahead are asked for. Each place among the rows of a step has sums of its own,
which are added up where a bag ends. A code becomes a float by one bit operation and one subtraction, as the low bits of
the mantissa of 2^23.

No bag is divided: a giant one keeps its program busy for long, and the bags of its share after it are other programs'.
If most bags are that long, each has several warps.
"""

from functools import cached_property

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F

# Lookups and bags of one program.
SHARE = 512
# A word is four codes. The words of the rows that a warp reads in one instruction, 16 bytes a lane.
WORDS = 128
MOST_WORDS_A_ROW = 32
# Such reads that a program has under way, at most 8.
UNROLL = 4
SECTOR_BYTES = 32
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
def centred_codes(words):
    """Return the four codes of each word less 128, those of the odd places times 256."""
    # An integer n below 2^23 in the mantissa of 2^23 is the float 2^23 + n.
    EXPONENT: tl.constexpr = 0x4B000000
    EVEN: tl.constexpr = 8388608.0 + 128.0
    ODD: tl.constexpr = 8388608.0 + 128.0 * 256.0
    upper = words >> 16
    return (
        ((words & 0xFF) | EXPONENT).to(tl.float32, bitcast=True) - EVEN,
        ((words & 0xFF00) | EXPONENT).to(tl.float32, bitcast=True) - ODD,
        ((upper & 0xFF) | EXPONENT).to(tl.float32, bitcast=True) - EVEN,
        ((upper & 0xFF00) | EXPONENT).to(tl.float32, bitcast=True) - ODD,
    )


@triton.jit
def scale_and_bias(header):
    """Return the scale, and the worth of code 128, of headers of a float16 scale and, above it, a float16 bias."""
    scale = (header & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    bias = ((header >> 16) & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    return scale, bias + 128.0 * scale


@triton.jit
def in_order(total_0, total_1, total_2, total_3, bias, SHAPE: tl.constexpr):
    """Return the sums of a block's columns in their order, from those of the four places in a word."""
    SHRINK: tl.constexpr = 1.0 / 256.0
    even = tl.join(total_0, total_2)
    odd = tl.join(total_1, total_3) * SHRINK
    return tl.reshape(tl.join(even, odd), SHAPE) + bias


@triton.jit(do_not_specialize=["bags"])
def sum_bags(
    words,
    headers,
    indices,
    offsets,
    output,
    bags,
    DIM: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    SHARE: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    PROBES: tl.constexpr,
):
    """Sum the rows of each bag in a share of the bags, in BLOCK words of columns."""
    STEPS = (0, 1, 2, 3, 4, 5, 6, 7)[:UNROLL]
    # Beyond every lookup of the share: no bag ends there.
    NEVER: tl.constexpr = 1 << 30
    slot = tl.arange(0, ROWS)[:, None]
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    column = tl.program_id(1) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)[None, :]
    # Words beyond the row are not read and columns beyond it not stored; whole blocks need no mask.
    readable = None if STRIDE % BLOCK == 0 else place < STRIDE
    inside = None if DIM % (4 * BLOCK) == 0 else column < DIM

    # A bag counts as much as a lookup, so that a share holds SHARE bags at most.
    key = tl.program_id(0).to(tl.int64) * SHARE
    bag = first_bag(offsets, bags, key, PROBES)
    follower = bag + tl.arange(0, SHARE)
    following = tl.load(offsets + follower, mask=follower < bags, other=key + SHARE) + follower < key + SHARE
    last = bag + tl.sum(following.to(tl.int32))
    if bag < last:
        start = tl.load(offsets + bag)
        limit = tl.load(offsets + last)
        end = tl.load(offsets + bag + 1)
        next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= last, other=limit + NEVER)
        table = words + place
        target = output + column
        lookup = indices + start + slot
        remaining = (limit - start).to(tl.int32) - slot
        # How far ahead of the current step the current bag ends.
        ahead = (end - start).to(tl.int32)
        # Beyond the last lookup row 0 is read, and added to no bag.
        row = [tl.load(lookup + each * ROWS, mask=each * ROWS < remaining, other=0) for each in STEPS]
        rows = [tl.load(table + one * STRIDE, mask=readable) for one in row]
        row_headers = [tl.load(headers + one) for one in row]
        lookup += UNROLL * ROWS
        remaining -= UNROLL * ROWS
        row = [tl.load(lookup + each * ROWS, mask=each * ROWS < remaining, other=0) for each in STEPS]
        zeros = tl.zeros([ROWS, BLOCK], tl.float32)
        total_0, total_1, total_2, total_3 = zeros, zeros, zeros, zeros
        total_bias = tl.zeros([ROWS, 1], tl.float32)
        while bag < last:
            for step in tl.static_range(UNROLL):
                code_0, code_1, code_2, code_3 = centred_codes(rows[0])
                scale, bias = scale_and_bias(row_headers[0])
                # The step UNROLL steps ahead is asked for, and the indices of the one as far again.
                next_rows = [tl.load(table + row[0] * STRIDE, mask=readable)]
                next_headers = [tl.load(headers + row[0])]
                later = (step + UNROLL) * ROWS
                next_row = [tl.load(lookup + later, mask=later < remaining, other=0)]
                rows = rows[1:] + next_rows
                row_headers = row_headers[1:] + next_headers
                row = row[1:] + next_row
                while ahead < ROWS:
                    # The bag ends among these rows and takes those before its end.
                    own_scale = tl.where(slot < ahead, scale, 0.0)
                    total_0 += code_0 * own_scale
                    total_1 += code_1 * own_scale
                    total_2 += code_2 * own_scale
                    total_3 += code_3 * own_scale
                    total_bias += tl.where(slot < ahead, bias, 0.0)
                    scale = tl.where(slot < ahead, 0.0, scale)
                    bias = tl.where(slot < ahead, 0.0, bias)
                    pooled = in_order(
                        tl.sum(total_0, axis=0, keep_dims=True),
                        tl.sum(total_1, axis=0, keep_dims=True),
                        tl.sum(total_2, axis=0, keep_dims=True),
                        tl.sum(total_3, axis=0, keep_dims=True),
                        tl.sum(total_bias, axis=0, keep_dims=True),
                        [1, 4 * BLOCK],
                    )
                    tl.store(target + bag.to(tl.int64) * DIM, pooled.to(output.dtype.element_ty), mask=inside)
                    total_0, total_1, total_2, total_3 = zeros, zeros, zeros, zeros
                    total_bias = tl.zeros([ROWS, 1], tl.float32)
                    bag += 1
                    ahead += (next_end - end).to(tl.int32)
                    end = next_end
                    next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= last, other=limit + NEVER)
                total_0 += code_0 * scale
                total_1 += code_1 * scale
                total_2 += code_2 * scale
                total_3 += code_3 * scale
                total_bias += bias
                ahead -= ROWS
            lookup += UNROLL * ROWS
            remaining -= UNROLL * ROWS


@triton.jit(do_not_specialize=["bags"])
def sum_tile(
    words,
    headers,
    indices,
    offsets,
    output,
    bags,
    DIM: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    BAGS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Sum the rows of BAGS bags side by side in BLOCK words of columns, ROWS rows of each at a time."""
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)[:, None, None]
    each = tl.arange(0, ROWS)[None, :, None]
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, None, :]
    column = tl.program_id(1) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)[None, None, :]
    lookup = tl.load(offsets + bag, mask=bag < bags, other=0) + each
    end = tl.load(offsets + bag + 1, mask=bag < bags, other=0)
    total_0 = tl.zeros([BAGS, 1, BLOCK], tl.float32)
    total_1 = tl.zeros([BAGS, 1, BLOCK], tl.float32)
    total_2 = tl.zeros([BAGS, 1, BLOCK], tl.float32)
    total_3 = tl.zeros([BAGS, 1, BLOCK], tl.float32)
    total_bias = tl.zeros([BAGS, 1, 1], tl.float32)
    longest = tl.max(end - lookup)
    while longest > 0:
        row = tl.load(indices + lookup, mask=lookup < end, other=0)
        # Lookups beyond a bag's end get a header of zeros, hence scale and bias 0.
        header = tl.load(headers + row, mask=lookup < end, other=0)
        rows = tl.load(words + row * STRIDE + place, mask=(lookup < end) & (place < STRIDE), other=0)
        code_0, code_1, code_2, code_3 = centred_codes(rows)
        scale, bias = scale_and_bias(header)
        total_0 += tl.sum(code_0 * scale, axis=1, keep_dims=True)
        total_1 += tl.sum(code_1 * scale, axis=1, keep_dims=True)
        total_2 += tl.sum(code_2 * scale, axis=1, keep_dims=True)
        total_3 += tl.sum(code_3 * scale, axis=1, keep_dims=True)
        total_bias += tl.sum(bias, axis=1, keep_dims=True)
        lookup += ROWS
        longest -= ROWS
    pooled = in_order(total_0, total_1, total_2, total_3, total_bias, [BAGS, 1, 4 * BLOCK])
    inside = (bag < bags) & (column < DIM)
    tl.store(output + bag.to(tl.int64) * DIM + column, pooled.to(output.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    rows: torch.Tensor
    precision: torch.Tensor

    def __init__(self, rows: int, dim: int, value_scale: float):
        super().__init__()
        scale = (0.5 + torch.rand(rows)) * value_scale / 74.0
        bias = 0.1 * value_scale * torch.randn(rows) - 127.5 * scale
        header = torch.stack([scale, bias], dim=1).half().view(torch.uint8)
        codes = torch.randint(256, (rows, dim), dtype=torch.uint8)
        self.register_buffer("rows", torch.cat([header, codes], dim=1))
        self.register_buffer("precision", torch.empty(0))
        self.dim = dim

    @cached_property
    def words(self) -> torch.Tensor:
        """The codes alone, as [rows, words] int32, padded to whole sectors."""
        return F.pad(self.rows[:, 4:], (0, -self.dim % SECTOR_BYTES)).contiguous().view(torch.int32)

    @cached_property
    def headers(self) -> torch.Tensor:
        """[rows] int32, each the bits of a row's scale and, above them, of its bias."""
        return self.rows[:, :4].contiguous().view(torch.int32).squeeze(1)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags, stride = offsets.numel() - 1, self.words.shape[1]
        output = self.precision.new_empty(bags, self.dim)
        work = indices.numel() + bags
        block = min(MOST_WORDS_A_ROW, triton.next_power_of_2(stride))
        blocks = triton.cdiv(stride, block)
        long = indices.numel() > LONG * bags
        if long or 0 < work < FEWEST_STREAMED:
            tile_bags, tile_rows, warps = (1, LONG_ROWS, LONG_WARPS) if long else (TILE_BAGS, TILE_ROWS, TILE_WARPS)
            sum_tile[triton.cdiv(bags, tile_bags), blocks](
                self.words, self.headers, indices, offsets, output, bags,
                DIM=self.dim, STRIDE=stride, BLOCK=block, BAGS=tile_bags, ROWS=tile_rows, num_warps=warps,
            )  # fmt: skip
        elif work:
            sum_bags[triton.cdiv(work, SHARE), blocks](
                self.words, self.headers, indices, offsets, output, bags,
                DIM=self.dim, STRIDE=stride, BLOCK=block, SHARE=SHARE, ROWS=WORDS // block, UNROLL=UNROLL,
                PROBES=PROBES, num_warps=1,
            )  # fmt: skip
        return output
