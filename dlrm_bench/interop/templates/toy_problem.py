import torch
import torch.nn as nn

ROWS = 65_536
COLUMNS = 768


class Model(nn.Module):
    """Square what is positive, and weight each column."""

    def __init__(self, columns: int):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: [rows, columns]
        returns: [rows, columns]
        """
        return torch.relu(x).square() * self.gate


def get_init_inputs():
    return [COLUMNS]


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
