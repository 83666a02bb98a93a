"""fbgemm's permute_2D_sparse_data, which also permutes the lengths.

It takes the permutation in int32, and the values' total is given, or it would have to wait for the GPU to know it.
"""

import torch
from torch import nn

from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    def forward(self, permutation: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        moved: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] = torch.ops.fbgemm.permute_2D_sparse_data(
            permutation.int(), lengths, values, None, values.numel()
        )
        return moved[1]
