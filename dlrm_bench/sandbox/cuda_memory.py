"""GPU memory that two processes share, by the CUDA driver's own calls.

torch's sharing works on blocks of its caching allocator, which may hold other tensors too, and counts references in
the other process, which a killed child never gives back. Here each block is an allocation of its own, and the parent
frees it when it pleases. The driver's functions are described in the CUDA driver API's pages on memory management.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

HANDLE_BYTES = 64
PAGE_BYTES = 2 << 20
"""The driver's large pages. A block that does not end with one is mapped by another process in small pages, all of it,
and kernels that read it there are slower."""
LAZY_ENABLE_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class CudaBlock:
    """A block of GPU memory, allocated here or mapped from the process that allocated it."""

    def __init__(self, pointer: int, nbytes: int, device: torch.device) -> None:
        self.pointer = pointer
        self.nbytes = nbytes
        self.device = device

    @staticmethod
    def allocate(nbytes: int, device: torch.device) -> CudaBlock:
        """Allocate a block, of whole large pages.

        Raises:
            torch.OutOfMemoryError: the GPU has no room for it.
        """
        pointer = ctypes.c_uint64()
        arguments = ctypes.byref(pointer), ctypes.c_size_t(math.ceil(nbytes / PAGE_BYTES) * PAGE_BYTES)
        with _context_of(device):
            try:
                _call("cuMemAlloc_v2", *arguments)
            except torch.OutOfMemoryError:
                # torch keeps what it has freed, and the driver does not know.
                torch.cuda.empty_cache()
                _call("cuMemAlloc_v2", *arguments)
        return CudaBlock(pointer.value, nbytes, device)

    @staticmethod
    def map(handle: bytes, nbytes: int, device: torch.device) -> CudaBlock:
        """Map another process's block by its handle."""
        pointer = ctypes.c_uint64()
        shared = _Handle.from_buffer_copy(handle)
        with _context_of(device):
            _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), shared, ctypes.c_uint(LAZY_ENABLE_PEER_ACCESS))
        return CudaBlock(pointer.value, nbytes, device)

    def handle(self) -> bytes:
        """Return what another process needs to map this block."""
        shared = _Handle()
        with _context_of(self.device):
            _call("cuIpcGetMemHandle", ctypes.byref(shared), ctypes.c_uint64(self.pointer))
        return bytes(shared)

    def tensor(self) -> torch.Tensor:
        """Return the block as one tensor of bytes."""
        return torch.as_tensor(self, device=self.device)

    def unmap(self) -> None:
        """Let go of a mapped block; its owner may free it afterwards."""
        self._release("cuIpcCloseMemHandle")

    def free(self) -> None:
        """Give an allocated block back; tensors on it must not be used any more."""
        self._release("cuMemFree_v2")

    def _release(self, call: str) -> None:
        with _context_of(self.device):
            torch.cuda.synchronize()
            _call(call, ctypes.c_uint64(self.pointer))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 2, "shape": (self.nbytes,), "typestr": "|u1", "data": (self.pointer, False)}


@contextlib.contextmanager
def _context_of(device: torch.device) -> Iterator[None]:
    """Make torch's context on a device the calling thread's: the driver's calls need one, and a new thread has none."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    with torch.cuda.device(device):
        context = ctypes.c_void_p()
        _call("cuCtxGetCurrent", ctypes.byref(context))
        if not context:
            _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(torch.cuda.current_device()))
            _call("cuCtxSetCurrent", context)
        yield


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code == 0:
        return
    text = ctypes.c_char_p()
    _driver().cuGetErrorName(code, ctypes.byref(text))
    reason = (text.value or b"unknown").decode()
    if reason == "CUDA_ERROR_OUT_OF_MEMORY":
        raise torch.OutOfMemoryError(f"{name}: CUDA out of memory")
    raise RuntimeError(f"{name}: CUDA error {reason}")
