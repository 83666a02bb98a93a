"""fbgemm's IntNBitTableBatchedEmbeddingBagsCodegen, its module for serving, with one table of INT8 rows.

On a GPU it pads each row to a multiple of 16 bytes. It takes int32 indices, so each call casts them.
"""

from functools import cached_property
from typing import Any

import torch
from torch import nn

from dlrm_bench.baselines.fbgemm.table_batched import cut_columns, pad_columns, padded
from dlrm_bench.libraries import require_fbgemm

require_fbgemm()


class ModelNew(nn.Module):
    rows: torch.Tensor
    precision: torch.Tensor

    def __init__(self, rows: int, dim: int, value_scale: float):
        super().__init__()
        scale = (0.5 + torch.rand(rows)) * value_scale / 74.0
        bias = 0.1 * value_scale * torch.randn(rows) - 127.5 * scale
        header = torch.stack([scale, bias], dim=1).half().view(torch.uint8)
        codes = torch.randint(256, (rows, dim), dtype=torch.uint8)
        self.register_buffer("rows", torch.cat([header, codes], dim=1))
        self.register_buffer("precision", torch.empty(0))
        self.dim = dim

    @cached_property
    def bags(self) -> Any:
        from fbgemm_gpu.split_embedding_configs import SparseType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation
        from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

        place = EmbeddingLocation.HOST if self.rows.device.type == "cpu" else EmbeddingLocation.DEVICE
        module = IntNBitTableBatchedEmbeddingBagsCodegen(
            [("table", len(self.rows), padded(self.dim), SparseType.INT8, place)],
            output_dtype=SparseType.from_dtype(self.precision.dtype),
            bounds_check_mode=BoundsCheckMode.NONE,
            device=self.rows.device,
        )
        module.initialize_weights()
        [(codes, header)] = module.split_embedding_weights()
        header.copy_(self.rows[:, :4])
        codes.copy_(pad_columns(self.rows[:, 4:]))
        return module

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return cut_columns(self.bags(indices.int(), offsets.int()), [self.dim])
