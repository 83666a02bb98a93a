"""Quantised embedding bag, 8-bit rows: one launch, every program streams an equal share of lookups and bags.

Memory and instructions bound it about equally. At full size 2.5 million lookups of 136 bytes carry 340 MB from L2 and
L1 to the SMs, and the distinct rows, the output and the indices carry about 0.15 GB from and to device memory: 35
microseconds at 4.24 TB/s. A lookup takes each lane some 28 instructions, 13 of them to dequantise 4 codes: 75
microseconds if every scheduler issued one in every cycle.

Rows of 132 bytes straddle sectors, so the first call copies them apart: codes in rows of whole 32-byte sectors, scales
and biases in 8 bytes a row. A program is one warp. It finds its run of bags by a search in `offsets`, and since bags
that follow each other do so in `indices` too, it streams their lookups without a stop at the bags' ends: it asks for
the rows of UNROLL lookups and the indices of the next UNROLL before the first row is needed, then adds the rows up one
by one and stores the total wherever a bag ends. A code becomes a float by one bit operation and one subtraction,
as the low bits of the mantissa of 2^23.
"""

from functools import cached_property

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F

# Lookups and bags of one program.
SHARE = 512
# Rows that a program has under way, at most 16.
UNROLL = 8
# A word is four codes.
MOST_WORDS = 64
MAX_REGISTERS = None
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
    """Return the two float32 that a header is made of."""
    return header.to(tl.int32).to(tl.float32, bitcast=True), (header >> 32).to(tl.int32).to(tl.float32, bitcast=True)


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
    UNROLL: tl.constexpr,
    PROBES: tl.constexpr,
):
    """Sum the rows of each bag in a share of the bags, in BLOCK words of columns."""
    LOOKUPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)[:UNROLL]
    # Beyond every lookup of the share: no bag ends there.
    NEVER: tl.constexpr = 1 << 30
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)
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
        lookup = indices + start
        remaining = (limit - start).to(tl.int32)
        # How far ahead of the current step the current bag ends.
        ahead = (end - start).to(tl.int32)
        row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
        zeros = tl.zeros([BLOCK], tl.float32)
        total_0, total_1, total_2, total_3 = zeros, zeros, zeros, zeros
        total_bias = 0.0
        while bag < last:
            # Beyond the last lookup row 0 is read, and added to no bag.
            rows = [tl.load(table + one * STRIDE, mask=readable) for one in row]
            row_headers = [tl.load(headers + one) for one in row]
            lookup += UNROLL
            remaining -= UNROLL
            row = [tl.load(lookup + each, mask=each < remaining, other=0) for each in LOOKUPS]
            for step in tl.static_range(UNROLL):
                while ahead == step:
                    pooled = in_order(total_0, total_1, total_2, total_3, total_bias, [4 * BLOCK])
                    tl.store(target + bag.to(tl.int64) * DIM, pooled.to(output.dtype.element_ty), mask=inside)
                    total_0, total_1, total_2, total_3 = zeros, zeros, zeros, zeros
                    total_bias = 0.0
                    bag += 1
                    ahead += (next_end - end).to(tl.int32)
                    end = next_end
                    next_end = tl.load(offsets + bag + 2, mask=bag + 2 <= last, other=limit + NEVER)
                code_0, code_1, code_2, code_3 = centred_codes(rows[step])
                scale, bias = scale_and_bias(row_headers[step])
                total_0 += code_0 * scale
                total_1 += code_1 * scale
                total_2 += code_2 * scale
                total_3 += code_3 * scale
                total_bias += bias
            ahead -= UNROLL


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
        """[rows] int64, each the bits of a float32 scale and, above them, of the float32 worth of code 128."""
        scale, bias = self.rows[:, :4].contiguous().view(torch.float16).float().unbind(1)
        return torch.stack([scale, bias + 128.0 * scale], dim=1).view(torch.int64).squeeze(1)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags, stride = offsets.numel() - 1, self.words.shape[1]
        output = self.precision.new_empty(bags, self.dim)
        work = indices.numel() + bags
        block = min(MOST_WORDS, triton.next_power_of_2(stride))
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
                DIM=self.dim, STRIDE=stride, BLOCK=block, SHARE=SHARE, UNROLL=UNROLL, PROBES=PROBES,
                num_warps=1, maxnreg=MAX_REGISTERS,
            )  # fmt: skip
        return output
