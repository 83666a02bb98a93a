import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gated_square(x, gate, out, elements, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    value = tl.maximum(tl.load(x + at, mask=inside, other=0.0).to(tl.float32), 0.0)
    weight = tl.load(gate + at % columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (value * value * weight).to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        if x.numel() > 0:
            grid = (triton.cdiv(x.numel(), 1024),)
            gated_square[grid](x, self.gate, out, x.numel(), x.shape[1], BLOCK=1024)
        return out
