"""What parent and child say to each other, and the pipe they say it through.

Messages are msgpack of the structs below, never pickle: decoding one cannot run code, and anything that does not
decode is the child's failure. Tensors travel as places in an arena that the parent owns.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from select import select
from struct import pack, unpack
from time import monotonic
from typing import Any

import msgspec

from dlrm_bench.records import Failure, Kernel, Precision, Record

MAX_MESSAGE_BYTES = 16 << 20
MOST_CHARS = 1500
LOOK_EVERY_S = 0.1


class TensorRef(Record, frozen=True, tag="tensor"):
    """A tensor's place in the arena: contiguous, `offset` in bytes."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


class FileArena(Record, frozen=True, tag="file"):
    """Memory of a CPU arena: the file that the child was started with, grown to `nbytes`."""

    nbytes: int


class CudaArena(Record, frozen=True, tag="cuda"):
    """Memory of a GPU arena: the driver's handle of an allocation."""

    handle: bytes
    nbytes: int


Argument = TensorRef | int | float | bool | str | None


class Start(Record, frozen=True):
    """Fork a child that works in this folder on this device, with this much room in /dev/shm; a nursery's one request.

    With it come four descriptors: the child's end of the channel, the file of its arena, what it prints into, and its
    supervisor's end of the line.
    """

    workspace: str
    device: str
    shared_bytes: int


class Load(Record, frozen=True, tag="load"):
    """Import the submission from this file, under these limits; nothing outside its folder can be written then."""

    path: str
    memory_bytes: int
    file_bytes: int
    open_files: int


class Attach(Record, frozen=True, tag="attach"):
    """Map the arena; an earlier one is let go."""

    arena: FileArena | CudaArena


class Build(Record, frozen=True, tag="build"):
    """Construct ModelNew in float32 under this seed, then cast it."""

    init_inputs: list[Any]
    seed: int
    precision: Precision


class Renew(Record, frozen=True, tag="renew"):
    """Write what `Build` would draw under this seed where the model's own weights are."""

    init_inputs: list[Any]
    seed: int
    precision: Precision


class Call(Record, frozen=True, tag="call"):
    """Call the model once; keep its output, and a copy of it made at once.

    While the model runs, memory that nobody has written holds the byte `poison`.
    """

    arguments: list[Argument]
    poison: int


class Give(Record, frozen=True, tag="give"):
    """Sets of arguments for the next `Time`, which is then asked in a few bytes and answered at once."""

    sets: list[list[Argument]]


class Time(Record, frozen=True, tag="time"):
    """Call the model `calls` times over the sets given before in turn, time each call, keep all outputs.

    A GPU is kept busy for `hold_cycles` of its clock first, so that the host has queued the calls before they run.
    """

    calls: int
    flush_bytes: int
    hold_cycles: int


class Profile(Record, frozen=True, tag="profile"):
    """Do what `Time` does, without flushes, and record the kernels that run meanwhile; a GPU only."""

    calls: int
    hold_cycles: int


class Fetch(Record, frozen=True, tag="fetch"):
    """Copy one kept output into the arena: as it is now, or as it was when the model returned it.

    `call` counts the kept outputs from the first, or from the last if it is negative.
    """

    call: int
    into: TensorRef
    as_returned: bool


Request = Load | Attach | Build | Renew | Call | Give | Time | Profile | Fetch


class Ready(Record, frozen=True, tag="ready"):
    """The child is up, torch imported, these protections on; nothing of a submission's has run yet."""

    protections: list[str]


class Done(Record, frozen=True, tag="done"):
    """The request was carried out."""


class Called(Record, frozen=True, tag="called"):
    """What the model returned: the name of its type and, for a tensor, its facts.

    Only one plain torch.Tensor is of the kind `Tensor`.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""


class Timed(Record, frozen=True, tag="timed"):
    """What is told of a block, after everything on the device has ended.

    Attributes:
        times_us: of each call.
        late: at how many the host was late.
        digests: of what each call returned; none if it was no tensors.
    """

    times_us: list[float]
    late: int
    digests: list[int]


class Profiled(Record, frozen=True, tag="profiled"):
    """What two clocks say of the same calls: the events, and the driver's record of the kernels.

    Attributes:
        times_us: of each call, by the events.
        kernels: of a call.
        busy_us: time of a call in which at least one of them ran.
    """

    times_us: list[float]
    kernels: list[Kernel]
    busy_us: float


class Failed(Record, frozen=True, tag="failed"):
    """The submission's code raised."""

    status: Failure
    message: str


Reply = Ready | Done | Called | Timed | Profiled | Failed


def printable(text: str) -> str:
    """Return the beginning of a text with a blank for every character that is none: control, colour, line end."""
    return "".join(each if each.isprintable() else " " for each in text[:MOST_CHARS])


class ChannelClosedError(Exception):
    """The other side is gone."""


class ChannelTimeoutError(Exception):
    """Nothing came in time."""


class GarbageError(Exception):
    """What came is not a message."""


class Channel:
    """Length-prefixed messages over a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._encode = msgspec.msgpack.Encoder().encode

    def send(self, message: Request | Reply) -> None:
        """Send one message.

        Raises:
            ChannelClosedError: the other side is gone.
        """
        payload = self._encode(message)
        try:
            self._socket.sendall(pack("<I", len(payload)) + payload)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, expected: Any, timeout: float | None = None, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """Return the next message, decoded strictly as `expected`.

        Args:
            expected: a type that msgspec can decode.
            timeout: seconds to wait for the whole message; forever if left out.
            meanwhile: called now and then while nothing comes.

        Raises:
            ChannelClosedError: the other side is gone.
            ChannelTimeoutError: the message did not come whole in time.
            GarbageError: what came is too long, or is no such message.
        """
        deadline = None if timeout is None else monotonic() + timeout
        (length,) = unpack("<I", self._exactly(4, deadline, meanwhile))
        if length > MAX_MESSAGE_BYTES:
            raise GarbageError(f"a message of {length} bytes")
        try:
            return msgspec.msgpack.decode(self._exactly(length, deadline, meanwhile), type=expected)
        except msgspec.DecodeError as error:
            raise GarbageError(str(error)) from error

    def close(self) -> None:
        """Close this side."""
        self._socket.close()

    def _exactly(self, count: int, deadline: float | None, meanwhile: Callable[[], None]) -> bytes:
        data = bytearray()
        while len(data) < count:
            if deadline is not None:
                self._wait(deadline, meanwhile)
            try:
                piece = self._socket.recv(count - len(data))
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not piece:
                raise ChannelClosedError
            data += piece
        return bytes(data)

    def _wait(self, deadline: float, meanwhile: Callable[[], None]) -> None:
        while (left := deadline - monotonic()) > 0:
            if select([self._socket], [], [], min(left, LOOK_EVERY_S))[0]:
                return
            meanwhile()
        raise ChannelTimeoutError
