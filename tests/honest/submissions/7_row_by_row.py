"""One row of the triangle at a time, multiplied and added up without a matrix product, written in place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.features = features

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        vectors = torch.cat([dense.unsqueeze(1), sparse], dim=1).float()
        start = dense.shape[1]
        output = dense.new_empty(len(dense), start + (self.features + 1) * self.features // 2)
        output[:, :start] = dense
        for i in range(1, self.features + 1):
            output[:, start : start + i] = (vectors[:, i : i + 1] * vectors[:, :i]).sum(dim=2)
            start += i
        return output
