"""A reader for the JSON that torch.profiler exports, a block at a time, so that memory stays bounded by a block.

A block of the file is cut behind some event, and the piece before the cut is decoded as an array. That it decodes
proves that the cut is right: between two events, and not inside a string or a nested object.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import msgspec

from dlrm_bench.errors import MissingFileError, TraceError

BLOCK_BYTES = 16 << 20
LONGEST_EVENT_BYTES = 64 << 20
LONGEST_HEADER_BYTES = 16 << 20
MOST_CUTS = 64
_GZIP_MAGIC = b"\x1f\x8b"
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN_EVENTS = re.compile(rb"\}\s*,\s*\{")
_AFTER_EVENTS = re.compile(rb"\}\s*\]")


class Event(msgspec.Struct):
    """One event as the file has it; times in microseconds."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float | None = None
    dur: float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class DeviceProperties(msgspec.Struct):
    """What the file says of a GPU."""

    id: int = 0
    name: str = ""


class Header(msgspec.Struct):
    """What the file says of itself, so far as it is used."""

    device_properties: list[DeviceProperties] = msgspec.field(default_factory=list, name="deviceProperties")
    cuda_runtime_version: int | None = None
    cuda_driver_version: int | None = None
    with_stack: int | bool | None = None


class KinetoFile:
    """A Kineto file, plain or gzipped.

    Attributes:
        path: where it is.
        header: what stands before and behind the events; complete once all events have been read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = Header()
        self._decoder = msgspec.json.Decoder(list[Event])
        self._read = 0
        self._events = 0

    def events(self) -> Iterator[Event]:
        """Yield every event in the order of the file.

        Raises:
            MissingFileError: the file cannot be opened.
            TraceError: it is empty, cut short, no JSON, no Kineto file, or has an event that is none.
        """
        with open_text(self.path) as stream:
            rest = self._skip_header(stream)
            while True:
                block = self._more(stream, BLOCK_BYTES)
                rest += block
                if not block:
                    break
                ends = [found.start() + 1 for found in _BETWEEN_EVENTS.finditer(rest)]
                for end in ends[: -MOST_CUTS - 1 : -1]:
                    events = self._decode(rest[:end] + b"]")
                    if events is not None:
                        yield from events
                        rest = b"[" + rest[end:].lstrip().removeprefix(b",")
                        break
                if len(rest) > LONGEST_EVENT_BYTES:
                    raise TraceError(f"{self.path}: no event ends in the {len(rest)} bytes before byte {self._read}")
            yield from self._last_events(rest)

    def _skip_header(self, stream: BufferedIOBase) -> bytes:
        """Return an opening bracket and what follows it; chrome's bare array of events has no header."""
        text = b""
        while len(text) < LONGEST_HEADER_BYTES:
            block = self._more(stream, 1 << 16)
            text += block
            stripped = text.lstrip(b"\xef\xbb\xbf \t\r\n")
            if stripped.startswith(b"["):
                return stripped
            if stripped and not stripped.startswith(b"{"):
                raise TraceError(f"{self.path} is no JSON: it begins with {bytes(stripped[:20])!r}")
            found = _EVENTS.search(text)
            if found:
                self._take_header(text[: found.start()].rstrip().rstrip(b",") + b"}")
                return b"[" + text[found.end() :]
            if not block:
                break
        what = f"has no traceEvents in its first {len(text)} bytes" if text.strip() else "is empty"
        raise TraceError(f"{self.path} {what}; a trace is what torch.profiler's export_chrome_trace writes")

    def _last_events(self, text: bytes) -> Iterator[Event]:
        """Yield the events before the array's end, and take what stands behind it for a part of the header."""
        empty = re.match(rb"\[\s*\]", text)
        ends = [empty.end()] if empty else [found.end() for found in _AFTER_EVENTS.finditer(text)]
        for end in ends[:MOST_CUTS]:
            events = self._decode(text[:end])
            if events is not None:
                yield from events
                self._take_header(b"{" + text[end:].strip().removeprefix(b",").lstrip())
                return
        self._decode(text)
        raise TraceError(
            f"{self.path} is cut short or damaged: no whole event after event {self._events}, "
            f"in the last {len(text)} of {self._read} bytes"
        )

    def _decode(self, text: bytes) -> list[Event] | None:
        """Return the events of an array, or nothing if the text is not one array."""
        try:
            events = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise TraceError(f"{self.path} has an event that is none, after event {self._events}: {error}") from error
        except (msgspec.DecodeError, RecursionError):
            return None
        self._events += len(events)
        return events

    def _take_header(self, text: bytes) -> None:
        try:
            found: dict[str, Any] = msgspec.json.decode(text if text.strip() != b"{" else b"{}")
            header = msgspec.convert(found, Header)
        except (msgspec.DecodeError, RecursionError):
            # A hand-edited file may have anything around its events; what they need is told where it is missing.
            return
        names = {each.encode_name: each.name for each in msgspec.structs.fields(Header)}
        for key in found.keys() & names.keys():
            setattr(self.header, names[key], getattr(header, names[key]))

    def _more(self, stream: BufferedIOBase, size: int) -> bytes:
        try:
            block = stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"{self.path} is damaged or cut short after {self._read} bytes: {error}") from error
        self._read += len(block)
        return block


def open_text(path: Path) -> BufferedIOBase:
    """Open a file, gzipped or not, and give its text as bytes.

    Raises:
        MissingFileError: it cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == _GZIP_MAGIC
        return gzip.open(path) if packed else path.open("rb")
    except OSError as error:
        raise MissingFileError(f"cannot read {path}: {error.strerror}") from error
