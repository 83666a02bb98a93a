"""Reduced traces on disk: the same bytes for the same trace, and an index with checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

import msgspec

from dlrm_bench.errors import MissingFileError, TraceError, UsageError
from dlrm_bench.records import IndexEntry, Record, Trace, TraceIndex
from dlrm_bench.traces.kineto import open_text

SUFFIX = ".trace.json.gz"
INDEX_FILE = "index.json"
LARGEST_BYTES = 16 << 20
SCHEMA = 1
_LEAST_US = 0.1


def write_trace(trace: Trace, path: Path, force: bool = False) -> None:
    """Write a reduced trace, whole or not at all.

    Raises:
        UsageError: the name does not end in .trace.json.gz, or there is such a file and `force` is off.
        MissingFileError: it cannot be written.
    """
    check_output(path, force)
    _write(path, encode_trace(trace))


def check_output(path: Path, force: bool = False) -> None:
    """Tell whether a reduced trace may be written to a path, before the work is done.

    Raises:
        UsageError: the name does not end in .trace.json.gz, or there is such a file and `force` is off.
        MissingFileError: there is no such folder.
    """
    if not path.name.endswith(SUFFIX):
        raise UsageError(f"{path.name} is no name for a reduced trace: it must end in {SUFFIX}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; --force overwrites it")
    if not path.parent.is_dir():
        raise MissingFileError(f"cannot write {path}: there is no folder {path.parent}")


def encode_trace(trace: Trace) -> bytes:
    """Return the bytes of a reduced trace: JSON with sorted keys, gzipped without a time or a name."""
    return gzip.compress(msgspec.json.encode(trace, order="sorted") + b"\n", compresslevel=9, mtime=0)


def decode_trace(text: bytes, path: Path) -> Trace:
    """Return the reduced trace in a text.

    Raises:
        TraceError: it is none, or what it says cannot be true.
    """
    try:
        trace = msgspec.json.decode(text, type=Trace)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{path} is neither a Kineto file (no traceEvents) nor a reduced trace: {error}") from error
    flaw = _flaw(trace)
    if flaw:
        raise TraceError(f"{path} is a reduced trace that cannot be true: {flaw}")
    return trace


def read_small(path: Path) -> bytes | None:
    """Return a file's text, unpacked, or nothing if it is larger than any reduced trace.

    Raises:
        MissingFileError: it cannot be opened.
        TraceError: it is damaged.
    """
    with open_text(path) as stream:
        try:
            text = stream.read(LARGEST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"{path} is damaged or cut short: {error}") from error
    return text if len(text) <= LARGEST_BYTES else None


def write_index(folder: Path) -> TraceIndex:
    """Write `index.json` over all reduced traces in a folder, with their sizes and SHA-256 sums."""
    entries = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        packed = path.read_bytes()
        workload = decode_trace(gzip.decompress(packed), path).workload
        entries.append(IndexEntry(path.name, workload, len(packed), hashlib.sha256(packed).hexdigest()))
    index = TraceIndex(schema=1, traces=entries)
    _write(folder / INDEX_FILE, _formatted(index))
    return index


def refresh_index(folder: Path) -> None:
    """Write the index of a folder anew if it has one.

    Raises:
        MissingFileError: a file cannot be read or written.
        TraceError: a file that is named like a reduced trace is none.
    """
    try:
        msgspec.json.decode((folder / INDEX_FILE).read_bytes(), type=TraceIndex)
    except (OSError, msgspec.DecodeError):
        return
    write_index(folder)


def check_index(folder: Path) -> list[Path]:
    """Return the paths of the traces that a folder's index lists, each checked against its sum.

    Raises:
        MissingFileError: the index or a file is missing.
        TraceError: the index is none, or a file is another one than the index says.
    """
    try:
        index = msgspec.json.decode((folder / INDEX_FILE).read_bytes(), type=TraceIndex)
        packed = {folder / entry.file: (folder / entry.file).read_bytes() for entry in index.traces}
    except OSError as error:
        raise MissingFileError(f"cannot read {error.filename}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise TraceError(f"{folder / INDEX_FILE} is no index of traces: {error}") from error
    for entry, (path, data) in zip(index.traces, packed.items(), strict=True):
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise TraceError(f"{path} is not the file that {INDEX_FILE} lists: its SHA-256 differs")
    return list(packed)


def _formatted(record: Record) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record)) + b"\n"


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MissingFileError(f"cannot write {path}: {error.strerror}") from error


def _flaw(trace: Trace) -> str | None:
    steps = len(trace.profiled_wall_us)
    launches = trace.launches
    if trace.schema != SCHEMA:
        return f"it has schema {trace.schema}; this release reads {SCHEMA}"
    if not trace.rows or not steps:
        return "it has no kernels or no steps"
    if len(trace.busy_us) != steps or any(len(row.step_us) != steps for row in trace.rows):
        return f"not every row has {steps} steps"
    times = [*trace.wall_us, *trace.profiled_wall_us, *trace.busy_us, *(row.total_us for row in trace.rows)]
    if min(times) <= 0:
        return "a time is zero or negative"
    if any(row.exclusive_us > 1.01 * row.total_us + _LEAST_US for row in trace.rows):
        return "a kernel ran longer alone than in all"
    if launches is None:
        return None
    columns = (launches.row, launches.stream, launches.host_us, launches.start_us, launches.duration_us)
    if len({len(column) for column in columns}) != 1 or len(launches.waits_us) != len(launches.waits_end_us):
        return "the columns of its launches have different lengths"
    if any(not 0 <= row < len(trace.rows) for row in launches.row):
        return "a launch names a row that is not there"
    if launches.host_us != sorted(launches.host_us) or launches.waits_us != sorted(launches.waits_us):
        return "its launches or waits are not in the order of the host"
    return None
