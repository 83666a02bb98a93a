"""Memory that the parent lays out and one child can see.

Inputs and outputs cross the process border here and nowhere else. The parent allocates, the child maps: the parent
never opens anything that a child made. An arena holds nothing that its child may not see, and every child has its own.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os

import torch

from dlrm_bench.sandbox.cuda_memory import CudaBlock
from dlrm_bench.sandbox.messages import CudaArena, FileArena, TensorRef

ALIGNMENT = 512
# Bound before any submission is imported, so that replacing them later changes nothing in a child.
_part_of, _seen_as = torch.Tensor.__getitem__, torch.Tensor.view


class SharedFile:
    """An anonymous file for a CPU arena, which a child inherits by its descriptor.

    It can grow and never shrink: a mapped file that shrinks would end whoever touches the lost part.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("dlrm_bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)

    def grow(self, nbytes: int) -> None:
        """Make it this long, the memory allocated, so that there being none is an error here and now."""
        os.posix_fallocate(self.descriptor, 0, nbytes)

    def close(self) -> None:
        """Close this side's descriptor."""
        os.close(self.descriptor)


class Arena:
    """The parent's side: a block of memory, filled from the front."""

    def __init__(self, device: torch.device, nbytes: int, file: SharedFile) -> None:
        self.nbytes = nbytes
        self._used = 0
        self._block: CudaBlock | None = None
        if device.type == "cuda":
            self._block = CudaBlock.allocate(nbytes, device)
            self._memory = self._block.tensor()
        else:
            file.grow(nbytes)
            self._memory = map_file(file.descriptor, nbytes)

    def handle(self) -> FileArena | CudaArena:
        """Return what a child needs to map this memory."""
        return FileArena(self.nbytes) if self._block is None else CudaArena(self._block.handle(), self.nbytes)

    def reset(self) -> None:
        """Forget everything placed so far."""
        self._used = 0

    def skip(self, nbytes: int) -> None:
        """Leave a gap, so that what comes next lies elsewhere than it would have."""
        self._used += math.ceil(nbytes / ALIGNMENT) * ALIGNMENT

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


class MappedArena:
    """The child's side: the parent's memory, as one tensor of bytes."""

    def __init__(self, handle: FileArena | CudaArena, device: torch.device, descriptor: int) -> None:
        self._block: CudaBlock | None = None
        if isinstance(handle, FileArena):
            self.memory = map_file(descriptor, handle.nbytes)
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
    return _seen_as(_seen_as(_part_of(memory, slice(ref.offset, ref.offset + nbytes)), dtype), ref.shape)


def room_for(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Return the bytes that a tensor takes in an arena."""
    return max(1, math.ceil(math.prod(shape) * dtype.itemsize / ALIGNMENT)) * ALIGNMENT


def map_file(descriptor: int, nbytes: int) -> torch.Tensor:
    """Map a file and return it as one tensor of bytes, shared with all who map it."""
    return torch.frombuffer(mmap.mmap(descriptor, nbytes), dtype=torch.uint8)
