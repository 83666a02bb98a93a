"""Memory that the parent lays out and one child can see.

Inputs and outputs cross the process border here and nowhere else. The parent allocates, the child maps: the parent
never opens anything that a child made. An arena holds nothing that its child may not see, and every child has its own.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from pathlib import Path

import torch

from dlrm_bench.sandbox.cuda_memory import CudaBlock
from dlrm_bench.sandbox.messages import CudaArena, FileArena, TensorRef

ALIGNMENT = 512


class Arena:
    """The parent's side: a block of memory, filled from the front."""

    def __init__(self, device: torch.device, nbytes: int) -> None:
        self.nbytes = nbytes
        self._used = 0
        self._path: Path | None = None
        self._block: CudaBlock | None = None
        if device.type == "cuda":
            self._block = CudaBlock.allocate(nbytes, device)
            self._memory = self._block.tensor()
        else:
            self._path = _shared_file(nbytes)
            self._memory = torch.from_file(str(self._path), shared=True, size=nbytes, dtype=torch.uint8)

    def handle(self) -> FileArena | CudaArena:
        """Return what a child needs to map this memory."""
        if self._block is not None:
            return CudaArena(self._block.handle(), self.nbytes)
        return FileArena(str(self._path), self.nbytes)

    def reset(self) -> None:
        """Forget everything placed so far."""
        self._used = 0

    def place(self, tensor: torch.Tensor) -> TensorRef:
        """Copy a tensor in and return where it is."""
        ref = self.reserve(tensor.dtype, tuple(tensor.shape))
        self.view(ref).copy_(tensor)
        return ref

    def reserve(self, dtype: torch.dtype, shape: tuple[int, ...]) -> TensorRef:
        """Set room aside for a tensor and return where it is; the memory is as it was."""
        ref = TensorRef(self._used, str(dtype).removeprefix("torch."), shape)
        self._used += room_for(dtype, shape)
        if self._used > self.nbytes:
            raise ValueError(f"arena of {self.nbytes} bytes is too small for {self._used}")
        return ref

    def view(self, ref: TensorRef) -> torch.Tensor:
        """Return the tensor at a place, sharing the arena's memory."""
        return view_of(self._memory, ref)

    def close(self) -> None:
        """Give the memory back."""
        del self._memory
        if self._block is not None:
            self._block.free()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class MappedArena:
    """The child's side: the parent's memory, as one tensor of bytes."""

    def __init__(self, handle: FileArena | CudaArena, device: torch.device) -> None:
        self._block: CudaBlock | None = None
        if isinstance(handle, FileArena):
            self.memory = torch.from_file(handle.path, shared=True, size=handle.nbytes, dtype=torch.uint8)
        else:
            self._block = CudaBlock.map(handle.handle, handle.nbytes, device)
            self.memory = self._block.tensor()

    def close(self) -> None:
        """Unmap, so that the parent may free."""
        del self.memory
        if self._block is not None:
            self._block.unmap()


def view_of(memory: torch.Tensor, ref: TensorRef) -> torch.Tensor:
    """Return the tensor at a place of an arena's memory."""
    dtype = getattr(torch, ref.dtype)
    nbytes = math.prod(ref.shape) * dtype.itemsize
    return memory[ref.offset : ref.offset + nbytes].view(dtype).view(ref.shape)


def room_for(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Return the bytes that a tensor takes in an arena."""
    return max(1, math.ceil(math.prod(shape) * dtype.itemsize / ALIGNMENT)) * ALIGNMENT


def _shared_file(nbytes: int) -> Path:
    memory_disk = Path("/dev/shm")
    roomy = memory_disk.is_dir() and shutil.disk_usage(memory_disk).free > 2 * nbytes
    number, path = tempfile.mkstemp(prefix="dlrm_bench_", dir=memory_disk if roomy else None)
    try:
        # Allocated now, so that a full disk is an error here and not a bus error later.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(number, 0, nbytes)
        else:
            os.truncate(number, nbytes)
    finally:
        os.close(number)
    return Path(path)
