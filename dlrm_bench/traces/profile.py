"""What a Kineto file holds of kernels, launches and operators: the events that count, in one spelling."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dlrm_bench.errors import TraceError
from dlrm_bench.traces.kineto import Event, Header, KinetoFile

# Older releases of torch spell categories otherwise.
_KERNELS = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_OPERATORS = {"cpu_op", "operator"}
_LAUNCHES = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"}
_ANNOTATIONS = {"user_annotation"}
_STEP = re.compile(r"ProfilerStep\s*#\s*\d+")
_WAITS = re.compile(r"(cuda|cu|hip)(Device|Stream|Event|Ctx)?Synchronize|(cuda|hip)Memcpy$")
_LONGEST_US = 3.6e9
_NOTHING = msgspec.Raw(b"null")
Thread = tuple[int | str | None, int | str | None]


class Arguments(msgspec.Struct):
    """An event's `args`, so far as they are used, in the spelling of any age."""

    external_id: int | None = msgspec.field(default=None, name="External id")
    old_external_id: int | None = msgspec.field(default=None, name="external id")
    correlation: int | None = None
    stream: int | str | None = None
    device: int | str | None = None
    input_dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    old_input_dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input dims")
    input_type: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")


@dataclass(slots=True)
class Span:
    """A stretch of a host thread: an operator, an annotation, or a call of the CUDA runtime."""

    name: str
    start: float
    end: float
    thread: Thread
    id: int | None = None
    shapes: list[list[int]] | None = None
    dtype: str | None = None


@dataclass(slots=True)
class Launch:
    """A kernel, a copy or a fill, as it ran on the GPU."""

    name: str
    start: float
    end: float
    stream: int
    device: int | str | None
    external_id: int | None
    correlation: int | None


@dataclass
class Profile:
    """The events of a file that count, and how many kernels had no time that could be true."""

    path: Path
    header: Header
    kernels: list[Launch] = field(default_factory=list)
    operators: list[Span] = field(default_factory=list)
    annotations: list[Span] = field(default_factory=list)
    calls: list[Span] = field(default_factory=list)
    steps: list[Span] = field(default_factory=list)
    untimed: int = 0
    other: Counter[str] = field(default_factory=Counter)

    @property
    def waits(self) -> list[Span]:
        """Calls in which the host waits for the GPU."""
        return [call for call in self.calls if _WAITS.match(call.name)]


def read_profile(path: Path) -> Profile:
    """Read the events that count, of a file in which something ran on a GPU.

    Raises:
        MissingFileError: the file cannot be opened.
        TraceError: it is no Kineto file, or nothing in it ran on a GPU.
    """
    profile = collect_profile(path)
    if not profile.kernels:
        raise TraceError(_why_empty(profile))
    return profile


def collect_profile(path: Path) -> Profile:
    """Read the events that count, whether or not anything ran on a GPU.

    Raises:
        MissingFileError: the file cannot be opened.
        TraceError: it is no Kineto file.
    """
    file = KinetoFile(path)
    profile = Profile(path, file.header)
    with without_garbage_collection():
        _Collector(profile).take(file.events())
    return profile


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep Python from looking for cycles among millions of events, which have none; it takes longer than reading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Collector:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._decode = msgspec.json.Decoder(Arguments).decode
        self._streams: dict[int | str | None, int] = {}

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat.lower()
            if category in _KERNELS:
                self._take_kernel(event)
            elif category in _OPERATORS or category in _ANNOTATIONS or category in _LAUNCHES:
                self._take_span(event, category)
            else:
                self._profile.other[event.cat] += 1

    def _take_kernel(self, event: Event) -> None:
        span = _times(event)
        if span is None or span[0] == span[1]:
            self._profile.untimed += 1
            return
        arguments = self._arguments(event)
        stream = arguments.stream if arguments.stream is not None else event.tid
        self._profile.kernels.append(
            Launch(
                sys.intern(event.name),
                *span,
                self._stream_number(stream),
                arguments.device,
                _first(arguments.external_id, arguments.old_external_id),
                arguments.correlation,
            )
        )

    def _take_span(self, event: Event, category: str) -> None:
        times = _times(event)
        if times is None:
            return
        name, thread = sys.intern(event.name), (event.pid, event.tid)
        if _STEP.match(name):
            self._profile.steps.append(Span(name, *times, thread))
        elif category in _ANNOTATIONS:
            self._profile.annotations.append(Span(name, *times, thread))
        elif category in _LAUNCHES:
            self._profile.calls.append(Span(name, *times, thread, self._arguments(event).correlation))
        else:
            found = self._arguments(event)
            # Few inputs differ, so what is the same is kept once.
            shapes = _shapes(bytes(found.input_dims)) or _shapes(bytes(found.old_input_dims))
            dtype = _dtype(bytes(found.input_type))
            external = _first(found.external_id, found.old_external_id)
            self._profile.operators.append(Span(name, *times, thread, external, shapes, dtype))

    def _arguments(self, event: Event) -> Arguments:
        try:
            return self._decode(event.args)
        except msgspec.DecodeError as error:
            raise TraceError(f"{self._profile.path}: event {event.name!r} at {event.ts} us: args: {error}") from error

    def _stream_number(self, stream: int | str | None) -> int:
        if isinstance(stream, int):
            return stream
        digits = re.search(r"\d+", stream or "")
        return int(digits[0]) if digits else self._streams.setdefault(stream, -1 - len(self._streams))


def _first(new: int | None, old: int | None) -> int | None:
    return new if new is not None else old


def _times(event: Event) -> tuple[float, float] | None:
    """Return start and end, or nothing if they cannot be true."""
    start, duration = event.ts, event.dur
    if start is None or duration is None or not 0 <= duration < _LONGEST_US or not math.isfinite(start):
        return None
    return start, start + duration


@functools.lru_cache(1 << 16)
def _shapes(text: bytes) -> list[list[int]] | None:
    """Return one size an input, the members of tensor lists one after another."""
    dims = msgspec.json.decode(text)
    if not isinstance(dims, list):
        return None
    flat: list[list[int]] = []
    for each in dims:
        flat.extend(each if isinstance(each, list) and each and isinstance(each[0], list) else [each])
    whole = all(isinstance(each, list) and all(isinstance(size, int) for size in each) for each in flat)
    return flat if whole else None


@functools.lru_cache(1 << 12)
def _dtype(text: bytes) -> str | None:
    types = msgspec.json.decode(text)
    names = types if isinstance(types, list) else []
    floating = ("float", "double", "half", "bfloat")
    return next((each for each in names if isinstance(each, str) and any(f in each.lower() for f in floating)), None)


def _why_empty(profile: Profile) -> str:
    if profile.untimed:
        return f"{profile.path}: none of its {profile.untimed} kernels has a duration above zero"
    if profile.operators or profile.calls:
        return (
            f"{profile.path} has {len(profile.operators)} operators and nothing that ran on a GPU; "
            f"profile with ProfilerActivity.CUDA"
        )
    seen = ", ".join(f"{name or 'no category'} ({count})" for name, count in profile.other.most_common(5))
    return f"{profile.path} has no kernels; the categories of its events: {seen or 'none'}"
