"""Which libraries are here, and whether fbgemm-gpu and torch fit each other."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
from importlib import metadata
from types import ModuleType

from dlrm_bench.errors import CannotRunError, LibraryPairError, MissingPackageError
from dlrm_bench.records import Finding

# An fbgemm-gpu wheel is linked against one minor release of torch, and declares no requirement that pip could check.
TORCH_OF_FBGEMM = {
    "1.2": "2.7",
    "1.3": "2.8",
    "1.4": "2.9",
    "1.5": "2.10",
    "1.6": "2.11",
    "1.7": "2.12",
    "1.8": "2.13",
    "1.9": "2.14",
}


def installed_version(*names: str) -> str | None:
    """Return the version of the first of these distributions that is installed."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def fbgemm_for(torch_version: str) -> str | None:
    """Return the minor release of fbgemm-gpu that fits a torch release, if one is known."""
    wanted = _minor(torch_version)
    return next((fbgemm for fbgemm, torch in TORCH_OF_FBGEMM.items() if torch == wanted), None)


def check_fbgemm() -> None:
    """Raise unless fbgemm-gpu is installed and was built for the torch that is installed.

    Raises:
        MissingPackageError: it is not installed.
        LibraryPairError: it belongs to another torch.
    """
    torch_version = installed_version("torch") or "none"
    fits = fbgemm_for(torch_version)
    mend = (
        f"pip install 'fbgemm-gpu-cpu=={fits}.*' (fbgemm-gpu on a GPU)" if fits else "install a torch from 2.7 to 2.14"
    )
    fbgemm_version = installed_version("fbgemm-gpu", "fbgemm-gpu-cpu")
    if fbgemm_version is None:
        raise MissingPackageError(f"fbgemm-gpu is not installed; for torch {torch_version}: {mend}")
    expected = TORCH_OF_FBGEMM.get(_minor(fbgemm_version))
    if expected is not None and expected != _minor(torch_version):
        raise LibraryPairError(
            f"fbgemm-gpu {fbgemm_version} is built for torch {expected}, but torch {torch_version} is installed; {mend}"
        )


def require_fbgemm() -> ModuleType:
    """Import fbgemm_gpu, or say which command brings one that fits."""
    check_fbgemm()
    return importlib.import_module("fbgemm_gpu")


def require_torchrec() -> ModuleType:
    """Import torchrec, or say which command brings it."""
    check_fbgemm()
    if installed_version("torchrec") is None:
        fits = fbgemm_for(installed_version("torch") or "none")
        raise MissingPackageError(f"torchrec is not installed; pip install --no-deps 'torchrec=={fits}.*'")
    return importlib.import_module("torchrec")


def findings() -> list[Finding]:
    """Look at everything that dlrm-bench can use here, and say how to get what is missing."""
    logging.disable(logging.WARNING)
    try:
        return [_torch_finding(), _fbgemm_finding(), _torchrec_finding(), _compiler_finding()]
    finally:
        logging.disable(logging.NOTSET)


def _torch_finding() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("GPU", True, f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}")
    return Finding("GPU", True, "none: problems run at small size on the CPU, and times are CPU times")


def _fbgemm_finding() -> Finding:
    try:
        require_fbgemm()
    except (CannotRunError, OSError, ImportError) as error:
        return Finding("fbgemm-gpu", False, str(error).splitlines()[0])
    version = installed_version("fbgemm-gpu", "fbgemm-gpu-cpu")
    return Finding("fbgemm-gpu", True, f"{version} fits torch {installed_version('torch')}")


def _torchrec_finding() -> Finding:
    try:
        require_torchrec()
    except (CannotRunError, OSError, ImportError) as error:
        return Finding("torchrec", False, str(error).splitlines()[0])
    return Finding("torchrec", True, str(installed_version("torchrec")))


def _compiler_finding() -> Finding:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler:
        return Finding("C++ compiler", True, f"{compiler}, for torch.compile on a CPU")
    return Finding("C++ compiler", False, "none, so the inductor baseline cannot run on a CPU; apt-get install g++")


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])
