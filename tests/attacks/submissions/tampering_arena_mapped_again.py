"""D8: maps the shared memory a second time and writes into its input from a thread when the call is over."""

import mmap
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

EXPECT = {"problem": 1, "stage": "check", "reasons": ["input_changed"], "gpu": False}


class Bytes:
    """The memory of a tensor on a GPU, as any library may take it for its own."""

    def __init__(self, tensor: torch.Tensor):
        nbytes = tensor.numel() * tensor.element_size()
        self.__cuda_array_interface__ = {
            "version": 2,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (tensor.data_ptr(), False),
        }


def mapped_again(indices: torch.Tensor) -> mmap.mmap | torch.Tensor:
    if indices.is_cuda:
        return torch.as_tensor(Bytes(indices), device=indices.device)
    descriptor = int(sys.argv[2])
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size)


class ModelNew(nn.Module):
    def __init__(self, rows: int, dim: int, weight_scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        memory = mapped_again(indices)

        def write() -> None:
            for _ in range(1000):
                memory[0] = (int(memory[0]) + 1) % 256
                time.sleep(1e-5)

        output = self.right(indices, offsets)
        threading.Thread(target=write, daemon=True).start()
        time.sleep(0.001)
        return output
