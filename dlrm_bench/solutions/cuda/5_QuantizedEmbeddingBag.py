r"""Quantised embedding bag, 8-bit rows: teams of eight lanes, each with an equal share of look-ups, and no two in step.

Memory and instructions bound it about equally. At full size 2.5 million lookups of 132 bytes carry 330 MB from L2 and
L1 to the SMs, and the distinct rows, the output and the indices carry about 0.15 GB from and to device memory: 35
microseconds at 4.24 TB/s. On an H200 reading the rows and their headers takes 46 microseconds, if nothing is done with
them. A code takes two instructions.

The first call copies the rows apart: codes in rows of whole 32-byte sectors, a scale and a bias in 4 bytes a row. A
block has BAGS consecutive bags, whose lookups are consecutive, and its teams share them equally. So a long bag holds up
only its own block, and a team adds rows up in registers without a word to other lanes. It asks for LOOKUPS rows before
it needs the first, 16 bytes a lane, and stores a bag where one ends. What it has of a bag that an earlier team began
goes to shared memory, and who began it adds that up at the end.

A code becomes a float by one byte permutation: it is put into the mantissa of 2^15, from bit 8 on, which makes it
2^15 + code. The scales that 2^15 has been multiplied with are summed up too, and taken off after every eighth row, so
that no more than a few bits are lost. In float32 that is too many: there codes go into the mantissa of 2^23, which is
taken off at once.

Rows go straight to registers, and little shared memory is taken, since the hottest rows are read again and again and
what shared memory takes L1 lacks. In a trial on an H200, by events alone, it took 89 microseconds, and the Triton
solution 139.

Four fifths of the floor, 61 microseconds, stay out of reach: the 2.5 million lookups take a warp at least 15
instructions each, 40 microseconds if every scheduler issued one in every cycle, and while a warp adds rows up it has
none under way. Products of codes and scales on the tensor cores, eight bags at a time, were slower: their sums take so
many registers that an SM holds half as many warps. In these reading alone took 96 microseconds, and all of it 109.
"""

from functools import cached_property

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/Dispatch_v2.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <climits>
#include <cuda_fp16.h>

// A power of two.
constexpr int BAGS = 128;
constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
// As few registers as let an SM hold this many blocks.
constexpr int BLOCKS_PER_SM = 4;
// Rows that a team has under way.
constexpr int LOOKUPS = 4;
// Codes of a lane, lanes of a team, and codes of a team.
constexpr int CODES = 16;
constexpr int LANES = 8;
constexpr int WIDTH = CODES * LANES;
constexpr int TEAMS = THREADS / LANES;
// Taken off codes in float32, to add up smaller numbers.
constexpr float MIDDLE = 128;
constexpr unsigned ALL_LANES = 0xffffffffu;

template <typename T, int N>
struct alignas(N * sizeof(T)) Numbers {
    T each[N];
};

template <bool EXACT>
__device__ void add(float (&sum)[CODES], const uint4& row, float scale) {
    const unsigned words[] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int i = 0; i < CODES; i++) {
        unsigned word = words[i / 4], byte = i % 4;
        float code = EXACT ? __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7540 | byte)) - (8388608.0f + MIDDLE)
                           : __uint_as_float(__byte_perm(word, 0x47000000u, 0x7504 | byte << 4));
        sum[i] = fmaf(scale, code, sum[i]);
    }
}

// From here on a row's codes are unpacked anew: registers are dear.
__device__ void forget_codes(uint4& row) { asm volatile("" : "+r"(row.x), "+r"(row.y), "+r"(row.z), "+r"(row.w)); }

template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
sum_bags(const uint4* codes, const unsigned* headers, const unsigned* indices, const int64_t* offsets, T* output,
         int batch, int dim, int stride) {
    constexpr bool EXACT = sizeof(T) == 4;
    // Where each bag of the block ends, after a zero; beyond the last, nowhere.
    __shared__ int ends[BAGS + 2];
    __shared__ __align__(16) float pieces[THREADS * CODES];
    __shared__ __align__(16) unsigned all_rows_ahead[THREADS];
    __shared__ __align__(16) unsigned all_headers_ahead[THREADS];
    int first_bag = blockIdx.x * BAGS, bags = min(BAGS, batch - first_bag);
    offsets += first_bag;
    int64_t first = offsets[0];
    for (int b = threadIdx.x; b <= bags; b += THREADS) ends[b] = int(offsets[b] - first);
    if (threadIdx.x == 0) ends[bags + 1] = INT_MAX;
    __syncthreads();

    int lane = threadIdx.x % 32, team = threadIdx.x / LANES;
    int column = blockIdx.y * WIDTH + threadIdx.x % LANES * CODES;
    unsigned* rows_ahead = all_rows_ahead + threadIdx.x - lane;
    unsigned* headers_ahead = all_headers_ahead + threadIdx.x - lane;
    // Rows are padded to two vectors, and lanes beyond them read the first.
    const uint4* place = codes + (column / CODES < stride ? column / CODES : 0);
    // Else the compiler adds the two up for each row.
    asm volatile("" : "+l"(place));
    output += int64_t(first_bag) * dim + column;

    auto share = [&](int which) { return int(int64_t(ends[bags]) * which / TEAMS); };
    int at = share(team), limit = share(team + 1);
    // The first bag that ends later than `at`; the first team has those that end at 0 as well.
    int bag = 0;
    for (int step = team ? BAGS : 0; step; step /= 2)
        if (bag + step <= bags && ends[bag + step] <= at) bag += step;
    bool began_earlier = bag < bags && ends[bag] < at;
    int end = ends[bag + 1];
    float sum[CODES] = {}, scales = 0, bias = 0;
    auto take = [&](const uint4& row, unsigned header) {
        float2 both = __half22float2(reinterpret_cast<const __half2&>(header));
        add<EXACT>(sum, row, both.x);
        scales += both.x;
        bias += both.y;
    };
    auto settle = [&] {
        if (EXACT) bias = fmaf(scales, MIDDLE, bias);
        else
#pragma unroll
            for (int i = 0; i < CODES; i++) sum[i] = fmaf(scales, -32768.0f, sum[i]);
        scales = 0;
    };
    float* piece = pieces + CODES * threadIdx.x;
    auto keep_piece = [&] {
#pragma unroll
        for (int i = 0; i < CODES; i++) piece[i] = sum[i] + bias;
    };
    auto store = [&] {
        T* goal = output + int64_t(bag) * dim;
        if (dim % CODES == 0 && column < dim) {
            Numbers<T, CODES> numbers;
#pragma unroll
            for (int i = 0; i < CODES; i++) numbers.each[i] = T(sum[i] + bias);
            *reinterpret_cast<Numbers<T, CODES>*>(goal) = numbers;
        } else {
#pragma unroll
            for (int i = 0; i < CODES; i++)
                if (column + i < dim) goal[i] = T(sum[i] + bias);
        }
    };
    auto end_bag = [&] {
        settle();
        if (began_earlier) keep_piece();
        else store();
        began_earlier = false;
#pragma unroll
        for (int i = 0; i < CODES; i++) sum[i] = 0;
        bias = 0;
        bag++;
        end = ends[bag + 1];
    };

    // A row's header is asked for a round before the row, and its index a round before that.
    int next = at + lane % LANES;
    auto ask_row = [&](int position) { return position < limit ? __ldg(indices + 2 * (first + position)) : 0u; };
    unsigned row = ask_row(next), row_after = ask_row(next + LANES), header = __ldg(headers + row);
    auto ask = [&] {
        next += LANES;
        row = row_after;
        header = __ldg(headers + row);
        row_after = ask_row(next + LANES);
    };
    int rounds = (ends[bags] + TEAMS - 1) / TEAMS;
#pragma unroll 1
    while (rounds > 0) {
        __syncwarp();
        rows_ahead[lane] = row;
        headers_ahead[lane] = header;
        __syncwarp();
        ask();
        settle();
#pragma unroll 1
        for (int from = 0; from < LANES && rounds > 0; from += LOOKUPS) {
            int mine = lane / LANES * LANES + from;
            uint4 numbers = *reinterpret_cast<const uint4*>(rows_ahead + mine);
            const unsigned which[] = {numbers.x, numbers.y, numbers.z, numbers.w};
            uint4 rows[LOOKUPS];
#pragma unroll
            for (int i = 0; i < LOOKUPS; i++) rows[i] = __ldg(place + uint64_t(which[i]) * unsigned(stride));
            uint4 packed = *reinterpret_cast<const uint4*>(headers_ahead + mine);
            const unsigned heads[] = {packed.x, packed.y, packed.z, packed.w};
            if (__all_sync(ALL_LANES, at + LOOKUPS <= min(end, limit))) {
#pragma unroll
                for (int i = 0; i < LOOKUPS; i++) take(rows[i], heads[i]);
            } else {
#pragma unroll
                for (int i = 0; i < LOOKUPS; i++) {
                    forget_codes(rows[i]);
                    if (at + i < limit) {
                        while (end <= at + i) end_bag();
                        take(rows[i], heads[i]);
                    }
                }
            }
            at += LOOKUPS;
            rounds -= LOOKUPS;
        }
    }
    settle();
    while (end <= limit) end_bag();

    bool open = bag < bags && ends[bag] < limit;
    if (open && began_earlier) keep_piece();
    __syncthreads();
    if (open && !began_earlier) {
        for (int other = team + 1; other < TEAMS; other++) {
#pragma unroll
            for (int i = 0; i < CODES; i++) sum[i] += piece[CODES * LANES * (other - team) + i];
            if (end <= share(other + 1)) break;
        }
        store();
    }
}

torch::Tensor sum_bags(torch::Tensor codes, torch::Tensor headers, torch::Tensor indices, torch::Tensor offsets,
                       torch::Tensor precision, int64_t dim) {
    int batch = offsets.numel() - 1;
    auto output = torch::empty({batch, dim}, precision.options());
    c10::cuda::CUDAGuard guard(output.device());
    if (output.numel() == 0) return output;
    AT_DISPATCH_V2(output.scalar_type(), "sum_bags", AT_WRAP([&] {
        dim3 grid((batch + BAGS - 1) / BAGS, (dim + WIDTH - 1) / WIDTH);
        // The low halves of the indices: no table has 2^32 rows.
        sum_bags<scalar_t><<<grid, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
            reinterpret_cast<const uint4*>(codes.data_ptr<uint8_t>()),
            reinterpret_cast<const unsigned*>(headers.data_ptr<int>()),
            reinterpret_cast<const unsigned*>(indices.data_ptr<int64_t>()), offsets.data_ptr<int64_t>(),
            output.data_ptr<scalar_t>(), batch, dim, codes.size(1) / 16);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }), at::kFloat, at::kHalf, at::kBFloat16);
    return output;
}
"""
extension = load_inline(
    name="quantized_bags",
    cpp_sources="torch::Tensor sum_bags(torch::Tensor codes, torch::Tensor headers, torch::Tensor indices, "
    "torch::Tensor offsets, torch::Tensor precision, int64_t dim);",
    cuda_sources=CUDA,
    functions=["sum_bags"],
)
SECTOR_BYTES = 32


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
    def codes(self) -> torch.Tensor:
        """The codes alone, [rows, bytes] uint8, padded to whole sectors."""
        return F.pad(self.rows[:, 4:], (0, -self.dim % SECTOR_BYTES)).contiguous()

    @cached_property
    def headers(self) -> torch.Tensor:
        """[rows] int32, each the bits of a row's scale and, above them, of its bias."""
        return self.rows[:, :4].contiguous().view(torch.int32).squeeze(1)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        tensors = [one.as_subclass(torch.Tensor).contiguous() for one in (indices, offsets)]
        return extension.sum_bags(self.codes, self.headers, *tensors, self.precision, self.dim)
