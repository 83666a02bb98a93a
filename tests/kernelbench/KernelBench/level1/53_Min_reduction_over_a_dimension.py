import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.amin(x, dim=self.dim)


batch_size = 4
reduced = 4096
columns = 16


def get_inputs():
    return [torch.rand(batch_size, reduced, columns)]


def get_init_inputs():
    return [1]
