"""What a child may use."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Limits:
    """Bounds on one submission; crossing one is a status of that result, and the next submission runs.

    Attributes:
        start_s: seconds for the child to come up: importing torch, opening the device.
        load_s: seconds to import the submission.
        build_s: seconds to construct the model.
        first_call_s: seconds for the first call after a build, in which kernels are compiled.
        call_s: seconds for any later call.
        total_s: seconds for the submission as a whole.
        memory_bytes: host memory beyond what torch itself takes, or GPU memory on a GPU.
        file_bytes: largest file it may write.
        open_files: file descriptors.
        kept_output_chars: how much of what it prints is kept.
    """

    start_s: float = 120.0
    load_s: float = 120.0
    build_s: float = 120.0
    first_call_s: float = 180.0
    call_s: float = 30.0
    total_s: float = 900.0
    memory_bytes: int = 8 << 30
    file_bytes: int = 1 << 30
    open_files: int = 1024
    kept_output_chars: int = 4000

    @staticmethod
    def within(seconds: float | None, memory_bytes: int) -> Limits:
        """Return the default limits, each phase bounded by `seconds` as well."""
        if seconds is None:
            return Limits(memory_bytes=memory_bytes)
        plain = Limits()
        return Limits(
            load_s=min(seconds, plain.load_s),
            build_s=min(seconds, plain.build_s),
            first_call_s=min(seconds, plain.first_call_s),
            call_s=min(seconds, plain.call_s),
            total_s=seconds,
            memory_bytes=memory_bytes,
        )


OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory")

ENVIRONMENT_KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CC",
    "CXX",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "TRITON_INTERPRET",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)


def child_environment(package_root: str) -> dict[str, str]:
    """Return what all children have in their environment: an allow-list, and settings."""
    kept = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
    path = os.pathsep.join(part for part in (kept.get("PYTHONPATH"), package_root) if part)
    return {
        **kept,
        "PYTHONPATH": path,
        "PYTHONWARNINGS": "ignore",
        "OMP_WAIT_POLICY": "PASSIVE",
        # More threads are processes that each import torch first: longer than one problem's kernels take to compile.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Else each child compiles a program first, to see whether the compiler can do what the processor can.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
    }


def own_folders(workspace: str) -> dict[str, str]:
    """Return what a child has of its own in its environment: every cache and temporary folder in its workspace."""
    return {
        "HOME": workspace,
        "TMPDIR": workspace,
        "TRITON_CACHE_DIR": os.path.join(workspace, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(workspace, "inductor"),
    }


def limit_memory(device: torch.device, memory_bytes: int) -> None:
    """Bound what this process may take from now on: on a GPU its memory there, else its own beyond what it has."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), device)
    elif (status := Path("/proc/self/status")).exists():
        most = (int(status.read_text().split("VmData:")[1].split()[0]) << 10) + memory_bytes
        _, allowed = resource.getrlimit(resource.RLIMIT_DATA)
        # Only root may raise what somebody has set lower.
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def bound_own_memory() -> None:
    """Bound what this process may take to what the machine has available, where that can be read.

    What does not fit is then an error that can be reported, and not the end of the process by the system's hand.
    """
    status, machine = Path("/proc/self/status"), Path("/proc/meminfo")
    if not (status.exists() and machine.exists()):
        return
    taken, available = (
        int(path.read_text().split(name)[1].split()[0]) << 10
        for path, name in ((status, "VmData:"), (machine, "MemAvailable:"))
    )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = taken + available
    # Children bound themselves, below what is allowed at most, which stays as it is.
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that there is no memory left, in whatever words a library says so."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in text for words in OUT_OF_MEMORY_WORDS
    )
