"""Factorization machine: every element is read once, and the usual formula's cancellation avoided.

Memory bounds it. At full size a call reads 327 MB, which takes 77 us at 4.24 TB/s.

The sum over all pairs of fields is the sum over the fields of each one times the sum of those before it. That takes the
two instructions an element that a sum and a sum of squares take, and subtracts nothing. A thread holds 16 bytes of one
sample's columns and walks the fields, with the loads of UNROLL fields in flight at a time: nothing is exchanged between
threads until the end.
"""

import torch
import triton
import triton.language as tl
from torch import nn

UNROLL = 13
WARPS = 1  # with 32 of these programs on an SM, ptxas keeps eight loads of a thread in flight
BYTES_PER_THREAD = 16
LONGEST_BLOCK = 128


@triton.jit
def pairs_kernel(
    embeddings,
    out,
    batch,
    FIELDS: tl.constexpr,
    DIM: tl.constexpr,
    SAMPLES: tl.constexpr,
    BLOCK_D: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Sum the products of all pairs of fields for SAMPLES samples."""
    sample = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    rows = embeddings + sample.to(tl.int64)[:, None] * (FIELDS * DIM)
    pairs = tl.full([SAMPLES, BLOCK_D], 0.0, tl.float32)
    for start in range(0, DIM, BLOCK_D):
        column = start + tl.arange(0, BLOCK_D)
        inside = (sample < batch)[:, None] & (column < DIM)
        before = tl.full([SAMPLES, BLOCK_D], 0.0, tl.float32)
        for first in range(0, FIELDS, UNROLL):
            for each in tl.static_range(UNROLL):
                field = first + each
                x = tl.load(rows + field * DIM + column, mask=inside & (field < FIELDS), other=0.0).to(tl.float32)
                pairs += x * before
                before += x
    tl.store(out + sample, tl.sum(pairs, axis=1).to(out.dtype.element_ty), mask=sample < batch)


class ModelNew(nn.Module):
    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        batch, fields, dim = embeddings.shape
        out = torch.empty(batch, 1, dtype=embeddings.dtype, device=embeddings.device)
        if batch > 0:
            block_d = min(triton.next_power_of_2(dim), LONGEST_BLOCK)
            tile = WARPS * 32 * BYTES_PER_THREAD // embeddings.element_size()
            samples = max(tile // block_d, 1)
            pairs_kernel[(triton.cdiv(batch, samples),)](
                embeddings,
                out,
                batch,
                FIELDS=fields,
                DIM=dim,
                SAMPLES=samples,
                BLOCK_D=block_d,
                UNROLL=min(UNROLL, fields),
                num_warps=WARPS,
            )
        return out
