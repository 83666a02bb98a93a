import torch
import torch.nn as nn

FEATURES = 26
DIM = 128
BATCH = 65_536
INPUT_SCALE = 0.3
FIRST_FEATURE_SCALE = 1.0


class Model(nn.Module):
    """Append to the dense vector the dot product of every pair among itself and the sparse features' vectors."""

    def __init__(self, features: int):
        super().__init__()
        rows, columns = torch.tril_indices(features + 1, features + 1, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        """
        dense: [batch, dim]
        sparse: [batch, features, dim]
        returns: [batch, dim + (features + 1) * features / 2]: the dense vector, then the products of vectors i and j
            for (i, j) = (1, 0), (2, 0), (2, 1), (3, 0), ..., where vector 0 is the dense one
        """
        vectors = torch.cat([dense.unsqueeze(1), sparse], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return torch.cat([dense, products[:, self.rows, self.columns]], dim=1)


def get_init_inputs():
    return [FEATURES]


def get_inputs():
    dense = torch.randn(BATCH, DIM) * INPUT_SCALE
    sparse = torch.randn(BATCH, FEATURES, DIM) * INPUT_SCALE
    sparse[:, 0] *= FIRST_FEATURE_SCALE
    return [dense, sparse]
