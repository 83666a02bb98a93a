"""fbgemm's jagged_to_padded_dense: the whole operation in one call, to the bit."""

import torch
from torch import nn

from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        padded: torch.Tensor = torch.ops.fbgemm.jagged_to_padded_dense(values, [offsets], [self.max_length], 0.0)
        return padded
