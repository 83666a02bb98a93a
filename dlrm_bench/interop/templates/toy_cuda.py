import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>

template <typename T>
__global__ void kernel(const T* x, const T* gate, T* out, int64_t elements, int64_t columns) {
    int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < elements) {
        float value = fmaxf(float(x[at]), 0.0f);
        out[at] = T(value * value * float(gate[at % columns]));
    }
}

torch::Tensor gated_square(torch::Tensor x, torch::Tensor gate) {
    auto out = torch::empty_like(x);
    int64_t elements = x.numel();
    if (elements > 0) {
        AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gated_square", [&] {
            kernel<scalar_t><<<(elements + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
                x.data_ptr<scalar_t>(), gate.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), elements, x.size(1));
        });
    }
    return out;
}
"""
extension = load_inline(
    name="gated_square",
    cpp_sources="torch::Tensor gated_square(torch::Tensor x, torch::Tensor gate);",
    cuda_sources=CUDA,
    functions=["gated_square"],
)


class ModelNew(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.gated_square(x.contiguous(), self.gate)
