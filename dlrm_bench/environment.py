"""Where a result is made: versions and device, by allow-list."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import dlrm_bench
from dlrm_bench.errors import NoDeviceError
from dlrm_bench.libraries import installed_version
from dlrm_bench.records import Environment, Precision, Size

if TYPE_CHECKING:
    import torch


def open_device(name: str | None) -> torch.device:
    """Return the device asked for, or the first GPU, or the CPU if there is none.

    Raises:
        NoDeviceError: the device asked for is not here.
    """
    import torch

    chosen = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(chosen)
    except RuntimeError:
        raise NoDeviceError(f"no device {chosen!r}; cpu, cuda or cuda:N") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise NoDeviceError(
                f"no device {chosen}: torch {torch.__version__} sees {count} GPUs; `--device cpu` runs here"
            )
        return torch.device("cuda", device.index or 0)
    if device.type != "cpu":
        raise NoDeviceError(f"device {chosen} is not supported; cpu, cuda or cuda:N")
    return device


def default_size(device: torch.device) -> Size:
    """Return `full` for a GPU and `small` for a CPU."""
    return "full" if device.type == "cuda" else "small"


def default_precision(device: torch.device) -> Precision:
    """Return `bf16` for a GPU and `fp32` for a CPU."""
    return "bf16" if device.type == "cuda" else "fp32"


def describe(device: torch.device) -> Environment:
    """Return what a reader of a result needs to know about where it was made."""
    import torch

    on_gpu = device.type == "cuda"
    return Environment(
        device=torch.cuda.get_device_name(device) if on_gpu else f"CPU, {torch.get_num_threads()} threads",
        driver=_driver() if on_gpu else None,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        dlrm_bench=dlrm_bench.__version__,
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        triton=installed_version("triton"),
        fbgemm=installed_version("fbgemm-gpu", "fbgemm-gpu-cpu"),
        torchrec=installed_version("torchrec"),
    )


def _driver() -> str | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None
