"""An exported folder: written whole or not at all, over nothing that an export did not write, and compared."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.interop import parquet
from dlrm_bench.records.base import Record

MANIFEST = "dlrm-bench.json"


class Manifest(Record, frozen=True):
    """What an export wrote: which kind it was, and the SHA-256 of each file by its path within the folder."""

    kind: str
    files: dict[str, str]


def write(folder: Path, kind: str, files: Mapping[str, bytes]) -> None:
    """Write an export, in place of an earlier one.

    The files are written beside the folder first, so that an interruption leaves what was there before.

    Args:
        folder: new, empty, or as an earlier export left it.
        kind: of which export it is.
        files: contents by path within the folder.

    Raises:
        UsageError: the folder holds something else, which is left as it is.
        MissingFileError: it cannot be written.
    """
    target = folder.expanduser().resolve()
    _check_own(target, folder, kind)
    manifest = msgspec.json.format(msgspec.json.encode(Manifest(kind, _hashes(files)))) + b"\n"
    fresh, old = (target.with_name(f".{target.name}.{role}-{os.getpid()}") for role in ("new", "old"))
    try:
        for name, content in {**files, MANIFEST: manifest}.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except OSError as error:
        raise MissingFileError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


def differences(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Say in a line each what a folder has otherwise than an export of today; hidden files are somebody else's.

    Raises:
        MissingFileError: there is no such folder.
    """
    target = folder.expanduser()
    if not target.is_dir():
        raise MissingFileError(f"no folder {folder}; leave out --check to write it")
    names = {name for name in _names(target) if name != MANIFEST and not f"/{name}".count("/.")}
    found = [f"{name}: missing" for name in sorted({*files} - names)]
    found += [f"{name}: not part of the export" for name in sorted(names - {*files})]
    for name in sorted(names & {*files}):
        there, here = (target / name).read_bytes(), files[name]
        if there != here:
            differ = parquet.differences if name.endswith(".parquet") else _line_differences
            found += [f"{name}: {phrase}" for phrase in differ(there, here)]
    return found


def _line_differences(there: bytes, here: bytes) -> list[str]:
    old, new = (content.decode(errors="replace").splitlines() for content in (there, here))
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return [f"line {same + 1} differs"]


def _check_own(target: Path, folder: Path, kind: str) -> None:
    """Refuse a folder with anything in it that an export of this kind did not write, or that was changed since."""
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{folder} is no folder; name another")
    names = set(_names(target))
    if not names:
        return
    try:
        manifest = msgspec.json.decode((target / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        raise UsageError(f"{folder} holds files that no export wrote; name a new or an empty folder") from None
    if manifest.kind != kind:
        raise UsageError(f"{folder} is an export of {manifest.kind}, not of {kind}; name another folder")
    here = {name: (target / name).read_bytes() for name in names - {MANIFEST}}
    changed = sorted(name for name, digest in _hashes(here).items() if manifest.files.get(name) != digest)
    if changed:
        raise UsageError(
            f"{folder} holds what no export wrote: {', '.join(changed[:3])}{', ...' if changed[3:] else ''}; "
            "move it away, or name another folder"
        )


def _names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()]


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
