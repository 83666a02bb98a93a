"""The dtypes that precisions stand for; apart from `records`, which must not import torch."""

import torch

from dlrm_bench.records import Precision

DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
