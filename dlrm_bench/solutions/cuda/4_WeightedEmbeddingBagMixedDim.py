r"""Weighted embedding bags of mixed widths: teams of lanes, each with an equal share of look-ups, and no two in step.

The caches bound it. At full size 2.5 million lookups of 240 bytes on average (bfloat16) carry 600 MB from L2 and L1 to
the SMs, and the output of 31 MB, the indices, the weights of the lookups and the distinct rows carry about 0.25 GB from
and to device memory: 60 microseconds at 4.24 TB/s.

A block has BAGS consecutive bags of one table, and up to 512 bytes of its columns. Its lookups are consecutive, and as
many teams share them equally as rows lie side by side in its warps: a row of 64 bytes takes 4 lanes, one of 512 takes
32. So a long bag holds up only its own block, and a team adds rows up in registers without a word to other lanes. It
asks for LOOKUPS rows before it needs the first, 16 bytes a lane, and stores a bag where one ends. What it has of a bag
that an earlier team began goes to shared memory, and who began it adds that up at the end.

Rows go straight to registers, and little shared memory is taken, since the hottest rows are read again and again and
what shared memory takes L1 lacks. The indices of lookups are asked for two rounds earlier, and handed to a team through
shared memory, four at a time. In a trial on an H200, by events alone, it took 100 microseconds; reading the rows in the
same shares took 76, if nothing was done with them.

Triton has no teams within a warp that go their own ways: there lookups are summed by products on the tensor cores.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/Dispatch_v2.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <climits>

// A power of two.
constexpr int BAGS = 64;
constexpr int WARPS = 12;
constexpr int THREADS = 32 * WARPS;
// As few registers as let an SM hold this many blocks.
constexpr int BLOCKS_PER_SM = 3;
// Rows that a team has under way.
constexpr int LOOKUPS = 4;
constexpr unsigned ALL_LANES = 0xffffffffu;

// A table's columns, or a part of them as wide as a warp can read at once.
struct Block {
    int64_t address, row_bytes, first_column, table, lanes, width;
};

template <typename T, int N>
struct alignas(N * sizeof(T)) Numbers {
    T each[N];
};

__device__ void add(float (&sum)[8], const uint4& row, float factor, c10::BFloat16) {
    const unsigned words[] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum[2 * i] = fmaf(factor, __uint_as_float(words[i] << 16), sum[2 * i]);
        sum[2 * i + 1] = fmaf(factor, __uint_as_float(words[i] & 0xffff0000u), sum[2 * i + 1]);
    }
}

__device__ void add(float (&sum)[8], const uint4& row, float factor, c10::Half) {
    const __half2* words = reinterpret_cast<const __half2*>(&row);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 both = __half22float2(words[i]);
        sum[2 * i] = fmaf(factor, both.x, sum[2 * i]);
        sum[2 * i + 1] = fmaf(factor, both.y, sum[2 * i + 1]);
    }
}

__device__ void add(float (&sum)[4], const uint4& row, float factor, float) {
    const unsigned words[] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = fmaf(factor, __uint_as_float(words[i]), sum[i]);
}

// From here on a row's numbers are unpacked anew: registers are dear.
__device__ void forget_numbers(uint4& row) {
    asm volatile("" : "+r"(row.x), "+r"(row.y), "+r"(row.z), "+r"(row.w));
}

template <typename T, int LANES>
__device__ void sum_shares(const Block& block, int64_t first, const unsigned* indices, const T* factors, T* output,
                           int columns, int bags, const int* ends, float* pieces, unsigned* rows_ahead,
                           float* factors_ahead) {
    constexpr int N = 16 / sizeof(T), TEAMS = THREADS / LANES;
    int lane = threadIdx.x % 32, team = threadIdx.x / LANES, column = threadIdx.x % LANES * N;
    bool inside = column < block.width;
    const char* place = reinterpret_cast<const char*>(block.address) + (inside ? column * sizeof(T) : 0);
    // Else the compiler adds the two up for each row.
    asm volatile("" : "+l"(place));
    unsigned row_bytes = block.row_bytes;
    output += column;

    auto share = [&](int which) { return int(int64_t(ends[bags]) * which / TEAMS); };
    int at = share(team), limit = share(team + 1);
    // The first bag that ends later than `at`; the first team has those that end at 0 as well.
    int bag = 0;
    for (int step = team ? BAGS : 0; step; step /= 2)
        if (bag + step <= bags && ends[bag + step] <= at) bag += step;
    bool began_earlier = bag < bags && ends[bag] < at;
    int end = ends[bag + 1];
    float sum[N] = {};
    float* piece = pieces + N * threadIdx.x;
    auto keep_piece = [&] {
#pragma unroll
        for (int i = 0; i < N; i++) piece[i] = sum[i];
    };
    auto store = [&] {
        Numbers<T, N> numbers;
#pragma unroll
        for (int i = 0; i < N; i++) numbers.each[i] = T(sum[i]);
        if (inside) *reinterpret_cast<Numbers<T, N>*>(output + int64_t(bag) * columns) = numbers;
    };
    auto end_bag = [&] {
        if (began_earlier) keep_piece();
        else store();
        began_earlier = false;
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = 0;
        bag++;
        end = ends[bag + 1];
    };

    int next = at + lane % LANES;
    auto ask_row = [&](int position) { return position < limit ? __ldg(indices + 2 * (first + position)) : 0u; };
    auto ask_factor = [&](int position) { return position < limit ? float(factors[first + position]) : 0.0f; };
    unsigned row = ask_row(next), row_after = ask_row(next + LANES);
    float factor = ask_factor(next);
    auto ask = [&] {
        next += LANES;
        row = row_after;
        factor = ask_factor(next);
        row_after = ask_row(next + LANES);
    };
    int rounds = (ends[bags] + TEAMS - 1) / TEAMS;
#pragma unroll 1
    while (rounds > 0) {
        __syncwarp();
        rows_ahead[lane] = row;
        factors_ahead[lane] = factor;
        __syncwarp();
        ask();
#pragma unroll 1
        for (int from = 0; from < LANES && rounds > 0; from += LOOKUPS) {
            int mine = lane / LANES * LANES + from;
            uint4 numbers = *reinterpret_cast<const uint4*>(rows_ahead + mine);
            const unsigned which[] = {numbers.x, numbers.y, numbers.z, numbers.w};
            uint4 rows[LOOKUPS];
#pragma unroll
            for (int i = 0; i < LOOKUPS; i++)
                rows[i] = __ldg(reinterpret_cast<const uint4*>(place + uint64_t(which[i]) * row_bytes));
            float4 packed = *reinterpret_cast<const float4*>(factors_ahead + mine);
            const float weights[] = {packed.x, packed.y, packed.z, packed.w};
            if (__all_sync(ALL_LANES, at + LOOKUPS <= min(end, limit))) {
#pragma unroll
                for (int i = 0; i < LOOKUPS; i++) add(sum, rows[i], weights[i], T());
            } else {
#pragma unroll
                for (int i = 0; i < LOOKUPS; i++) {
                    forget_numbers(rows[i]);
                    if (at + i < limit) {
                        while (end <= at + i) end_bag();
                        add(sum, rows[i], weights[i], T());
                    }
                }
            }
            at += LOOKUPS;
            rounds -= LOOKUPS;
        }
    }
    while (end <= limit) end_bag();

    bool open = bag < bags && ends[bag] < limit;
    if (open && began_earlier) keep_piece();
    __syncthreads();
    if (open && !began_earlier) {
        for (int other = team + 1; other < TEAMS; other++) {
#pragma unroll
            for (int i = 0; i < N; i++) sum[i] += piece[N * LANES * (other - team) + i];
            if (end <= share(other + 1)) break;
        }
        store();
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
sum_bags(const Block* blocks, const unsigned* indices, const int64_t* offsets, const T* factors, T* output, int columns,
         int batch) {
    // Where each bag of the block ends, after a zero; beyond the last, nowhere.
    __shared__ int ends[BAGS + 2];
    __shared__ __align__(16) float pieces[THREADS * 16 / sizeof(T)];
    __shared__ __align__(16) unsigned rows_ahead[THREADS];
    __shared__ __align__(16) float factors_ahead[THREADS];
    const Block& block = blocks[blockIdx.y];
    int bag = blockIdx.x * BAGS, bags = min(BAGS, batch - bag), warp = threadIdx.x / 32 * 32;
    offsets += block.table * batch + bag;
    int64_t first = offsets[0];
    for (int b = threadIdx.x; b <= bags; b += THREADS) ends[b] = int(offsets[b] - first);
    if (threadIdx.x == 0) ends[bags + 1] = INT_MAX;
    __syncthreads();
    output += block.first_column + int64_t(bag) * columns;
    auto run = [&](auto lanes) {
        sum_shares<T, decltype(lanes)::value>(block, first, indices, factors, output, columns, bags, ends, pieces,
                                              rows_ahead + warp, factors_ahead + warp);
    };
    switch (block.lanes) {
        case 32: run(std::integral_constant<int, 32>()); break;
        case 16: run(std::integral_constant<int, 16>()); break;
        case 8: run(std::integral_constant<int, 8>()); break;
        default: run(std::integral_constant<int, 4>());
    }
}

// Of tables whose rows are not whole vectors of 16 bytes: a thread sums a column of one bag.
template <typename T>
__global__ void sum_columns(const Block* blocks, const unsigned* indices, const int64_t* offsets, const T* factors,
                            T* output, int columns, int batch) {
    const Block& block = blocks[blockIdx.y];
    int column = threadIdx.x % 32, bag = blockIdx.x * WARPS + threadIdx.x / 32;
    if (column >= block.width || bag >= batch) return;
    const char* place = reinterpret_cast<const char*>(block.address) + column * sizeof(T);
    offsets += block.table * batch + bag;
    float sum = 0;
    for (int64_t at = offsets[0]; at < offsets[1]; at++) {
        float number = *reinterpret_cast<const T*>(place + indices[2 * at] * block.row_bytes);
        sum = fmaf(float(factors[at]), number, sum);
    }
    output[block.first_column + column + int64_t(bag) * columns] = T(sum);
}

torch::Tensor sum_bags(torch::Tensor blocks, torch::Tensor indices, torch::Tensor offsets, torch::Tensor factors,
                       int64_t tables, int64_t columns, bool aligned) {
    int batch = (offsets.numel() - 1) / tables;
    auto output = torch::empty({batch, columns}, factors.options());
    c10::cuda::CUDAGuard guard(output.device());
    if (output.numel() == 0) return output;
    AT_DISPATCH_V2(factors.scalar_type(), "sum_bags", AT_WRAP([&] {
        auto kernel = aligned ? sum_bags<scalar_t> : sum_columns<scalar_t>;
        int bags = aligned ? BAGS : WARPS;
        dim3 grid((batch + bags - 1) / bags, blocks.size(0));
        // The low halves of the indices: no table has 2^32 rows.
        kernel<<<grid, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
            reinterpret_cast<const Block*>(blocks.data_ptr<int64_t>()),
            reinterpret_cast<const unsigned*>(indices.data_ptr<int64_t>()), offsets.data_ptr<int64_t>(),
            factors.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), columns, batch);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }), at::kFloat, at::kHalf, at::kBFloat16);
    return output;
}
"""
extension = load_inline(
    name="weighted_bags",
    cpp_sources="torch::Tensor sum_bags(torch::Tensor blocks, torch::Tensor indices, torch::Tensor offsets, "
    "torch::Tensor factors, int64_t tables, int64_t columns, bool aligned);",
    cuda_sources=CUDA,
    functions=["sum_bags"],
)
WARP = 32
VECTOR_BYTES = 16
FEWEST_LANES = 4


class ModelNew(nn.Module):
    def __init__(self, rows: list[int], dims: list[int], weight_scale: float):
        super().__init__()
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.randn(count, dim) * weight_scale) for count, dim in zip(rows, dims, strict=True)]
        )
        self.dims = dims
        self.addresses: list[int] = []
        self.blocks = torch.empty(0)
        self.aligned = False

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, sample_weights: torch.Tensor) -> torch.Tensor:
        self.update_blocks()
        tensors = [one.as_subclass(torch.Tensor).contiguous() for one in (indices, offsets, sample_weights)]
        return extension.sum_bags(self.blocks, *tensors, len(self.dims), sum(self.dims), self.aligned)

    def update_blocks(self) -> None:
        """Note where the tables lie, whenever one of them has moved; the widest, which take the longest, come first."""
        addresses = [table.data_ptr() for table in self.tables]
        if addresses == self.addresses:
            return
        item = self.tables[0].element_size()
        self.aligned = all(number % VECTOR_BYTES == 0 for number in addresses + [dim * item for dim in self.dims])
        most = WARP * VECTOR_BYTES // item if self.aligned else WARP
        lines = []
        for table in sorted(range(len(self.dims)), key=lambda table: -self.dims[table]):
            dim = self.dims[table]
            for first in range(0, dim, most):
                width = min(most, dim - first)
                lanes = max(FEWEST_LANES, 1 << (-(-width * item // VECTOR_BYTES) - 1).bit_length())
                address = addresses[table] + first * item
                lines.append((address, dim * item, sum(self.dims[:table]) + first, table, lanes, width))
        self.blocks = torch.tensor(lines).to(self.tables[0].device)
        self.addresses = addresses
