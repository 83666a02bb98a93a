"""What parent and child say to each other, and the pipe they say it through.

Messages are msgpack of the structs below, never pickle: decoding one cannot run code, and anything that does not
decode is the child's failure. Tensors travel as places in an arena that the parent owns.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Any

import msgspec

from dlrm_bench.records import Failure, Precision, Record

MAX_MESSAGE_BYTES = 16 << 20


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


class Call(Record, frozen=True, tag="call"):
    """Call the model once; keep its output, and a copy of it made at once.

    While the model runs, memory that nobody has written holds the byte `poison`.
    """

    arguments: list[Argument]
    poison: int


class Time(Record, frozen=True, tag="time"):
    """Call the model `calls` times over the sets of arguments in turn, time each call, keep all outputs.

    With `queue_ahead`, a GPU is kept busy until the host has queued the calls.
    """

    sets: list[list[Argument]]
    calls: int
    flush_bytes: int
    queue_ahead: bool


class Fetch(Record, frozen=True, tag="fetch"):
    """Copy one kept output into the arena: as it is now, or as it was when the model returned it.

    `call` counts the kept outputs from the first, or from the last if it is negative.
    """

    call: int
    into: TensorRef
    as_returned: bool


Request = Load | Attach | Build | Call | Time | Fetch


class Ready(Record, frozen=True, tag="ready"):
    """The child is up, torch imported."""


class Loaded(Record, frozen=True, tag="loaded"):
    """The submission is imported, and these protections were on while it was."""

    protections: list[str]


class Done(Record, frozen=True, tag="done"):
    """The request was carried out."""


class Called(Record, frozen=True, tag="called"):
    """What the model returned: the name of its type and, for a tensor, its facts."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""


class Timed(Record, frozen=True, tag="timed"):
    """Time of each call, and of the whole block on the host after everything on the device had ended."""

    times_us: list[float]
    host_us: float


class Failed(Record, frozen=True, tag="failed"):
    """The submission's code raised."""

    status: Failure
    message: str


Reply = Ready | Loaded | Done | Called | Timed | Failed


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
            self._socket.sendall(struct.pack("<I", len(payload)) + payload)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, expected: Any, timeout: float | None = None) -> Any:
        """Return the next message, decoded strictly as `expected`.

        Args:
            expected: a type that msgspec can decode.
            timeout: seconds to wait for the whole message; forever if left out.

        Raises:
            ChannelClosedError: the other side is gone.
            ChannelTimeoutError: the message did not come whole in time.
            GarbageError: what came is too long, or is no such message.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        (length,) = struct.unpack("<I", self._exactly(4, deadline))
        if length > MAX_MESSAGE_BYTES:
            raise GarbageError(f"a message of {length} bytes")
        try:
            return msgspec.msgpack.decode(self._exactly(length, deadline), type=expected)
        except msgspec.DecodeError as error:
            raise GarbageError(str(error)) from error

    def close(self) -> None:
        """Close this side."""
        self._socket.close()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                    raise ChannelTimeoutError
            try:
                piece = self._socket.recv(count - len(data))
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not piece:
                raise ChannelClosedError
            data += piece
        return bytes(data)
