"""B6: learns the order in which inputs come and answers before it looks at them."""

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {
    "problem": 1,
    "stage": "check",
    "reasons": ["relative_l2", "worst_row", "centred_l2", "worst_element", "wrong_while_timed", "not_repeatable"],
    "gpu": False,
}


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.calls = 0
        self.answers: list[torch.Tensor] = []

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if len(self.answers) < 3:
            self.answers.append(self.right(indices, offsets))
        return self.answers[(self.calls - 1) % 3].clone()
