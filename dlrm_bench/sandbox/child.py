"""The parent's handle on a child process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

import msgspec
import torch

from dlrm_bench.errors import SandboxError
from dlrm_bench.records import Failure, Precision
from dlrm_bench.sandbox.arena import Arena, SharedFile
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.sandbox.memory import MemoryWatch
from dlrm_bench.sandbox.messages import (
    Argument,
    Attach,
    Build,
    Call,
    Called,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Done,
    Failed,
    Fetch,
    GarbageError,
    Give,
    Load,
    Profile,
    Profiled,
    Ready,
    Renew,
    Reply,
    Request,
    Start,
    TensorRef,
    Time,
    Timed,
    printable,
)
from dlrm_bench.sandbox.nursery import end_nurseries, start_child
from dlrm_bench.sandbox.processes import let_go
from dlrm_bench.sandbox.supervisor import SIGNALLED, Supervisor

SMALLEST_ARENA = 1 << 20


class SubmissionFailedError(Exception):
    """The submission ended in a way that is not an answer.

    Attributes:
        status: which way.
        message: one line for a person, of printable characters: part of it may be the submission's own words.
    """

    def __init__(self, status: Failure, message: str) -> None:
        self.status: Failure = status
        self.message = printable(message)
        super().__init__(self.message)


class Child:
    """One child process, for one submission.

    Every method that runs the submission's code raises `SubmissionFailedError` when that code raises, hangs, dies or
    sends garbage. After a failure that killed the child, every further call raises the same way.

    Attributes:
        workspace: the one folder that it may write in, and that is removed with it.
        protections: what the submission cannot do, by `dlrm_bench.sandbox.protections`' names; known once it is up.
    """

    def __init__(self, device: torch.device, limits: Limits) -> None:
        self.device = device
        self._limits = limits
        self.workspace = Path(tempfile.mkdtemp(prefix="dlrm_bench_"))
        self._arena: Arena | None = None
        self._closed = False
        self._file = SharedFile()
        self._fresh = True
        self._left_s = limits.start_s + limits.total_s
        self._up = False
        self._memory: MemoryWatch | None = None
        self._stopped: list[int] = []
        self.protections: list[str] = []
        ours, theirs = socket.socketpair()
        line, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        read, write = os.pipe()
        self._channel, self._supervisor = Channel(ours), Supervisor(line)
        self._printed = _Drain(os.fdopen(read, "rb", 0), limits.kept_output_chars)
        start = Start(str(self.workspace), str(device), limits.memory_bytes)
        with theirs, end, os.fdopen(write, "wb") as output:
            start_child(start, theirs.fileno(), self._file.descriptor, output.fileno(), end.fileno())

    def wait(self) -> None:
        """Wait until the child is up.

        Raises:
            SandboxError: it does not come up.
        """
        if self._up:
            return
        try:
            ready: Ready = self._receive(Ready, self._limits.start_s)
        except SubmissionFailedError as error:
            # It may be what hangs.
            end_nurseries()
            raise SandboxError(f"the child did not come up: {error.message}") from error
        self._up, self.protections, self._left_s = True, ready.protections, self._limits.total_s
        supervisor = self._supervisor.process()
        if self.device.type == "cpu" and supervisor is not None:
            self._memory = MemoryWatch(supervisor, self._limits.memory_bytes)

    def load(self, source: str) -> None:
        """Wait until the child is up, then import the submission in it."""
        self.wait()
        path = self.workspace / "submission.py"
        path.write_text(source)
        bounds = self._limits
        self._ask(Load(str(path), bounds.memory_bytes, bounds.file_bytes, bounds.open_files), Done, bounds.load_s)

    def build(self, init_inputs: list[Any], seed: int, precision: Precision) -> None:
        """Construct the model under `seed`, in float32, and cast it."""
        self._fresh = True
        self._ask(Build(init_inputs, seed, precision), Done, self._limits.build_s)

    def renew(self, init_inputs: list[Any], seed: int, precision: Precision) -> None:
        """Have other weights written where the model's are: those that `build` would draw under `seed`."""
        self._ask(Renew(init_inputs, seed, precision), Done, self._limits.build_s)

    def arena(self, nbytes: int) -> Arena:
        """Return an empty arena of at least `nbytes` that the child has mapped."""
        if self._arena is None or self._arena.nbytes < nbytes:
            before, self._arena = self._arena, Arena(self.device, max(nbytes, SMALLEST_ARENA), self._file)
            try:
                self._ask(Attach(self._arena.handle()), Done, self._limits.call_s)
            finally:
                if before is not None:
                    before.close()
        self._arena.reset()
        return self._arena

    def call(self, arguments: list[Argument], poison: int) -> Called:
        """Call the model once, over memory filled with the byte `poison`; the child keeps the output."""
        reply: Called = self._ask(Call(arguments, poison), Called, self._call_limit())
        words = {name: printable(getattr(reply, name)) for name in ("kind", "dtype", "device")}
        return msgspec.structs.replace(reply, **words)

    def give(self, sets: list[list[Argument]]) -> None:
        """Hand over the argument sets for the next `time`."""
        self._ask(Give(sets), Done, self._limits.call_s)

    def time(self, calls: int, flush_bytes: int, hold_cycles: int) -> Timed:
        """Time `calls` calls over the given argument sets in turn; the child keeps the outputs."""
        reply: Timed = self._ask(Time(calls, flush_bytes, hold_cycles), Timed, self._call_limit() + self._limits.call_s)
        return reply

    def profile(self, calls: int, hold_cycles: int) -> Profiled:
        """Time calls as `time` does, the L2 as it is, and have their kernels recorded."""
        reply: Profiled = self._ask(Profile(calls, hold_cycles), Profiled, self._limits.call_s)
        kernels = [msgspec.structs.replace(each, name=printable(each.name)) for each in reply.kernels]
        return msgspec.structs.replace(reply, kernels=kernels)

    def fetch(self, call: int, into: TensorRef, as_returned: bool = False) -> None:
        """Have a kept output copied into the arena: as it is now, or as it was when the model returned it."""
        self._ask(Fetch(call, into, as_returned), Done, self._limits.call_s)

    def pause(self) -> None:
        """Stop the submission and all that it started, so that it takes nothing from others, until `resume`."""
        self._stopped = self._supervisor.stop_below()

    def resume(self) -> None:
        """Let it go on; what is stopped has started nothing meanwhile."""
        let_go(self._stopped)
        self._stopped = []

    def kill(self) -> None:
        """End the child and all that it started; who waits for its answer, in whatever thread, is told."""
        self._supervisor.kill()

    def close(self) -> None:
        """End the child and all that it started, and remove what it wrote, even if the caller is interrupted."""
        if self._closed:
            return
        self._closed = True
        # Signals are handled in the main thread, so that none cuts this one short.
        closing = threading.Thread(target=self._close)
        closing.start()
        closing.join()

    def _close(self) -> None:
        self._channel.close()
        self._supervisor.close()
        self._file.close()
        if self._arena is not None:
            self._arena.close()
            self._arena = None
        shutil.rmtree(self.workspace, ignore_errors=True)

    def _call_limit(self) -> float:
        limit = self._limits.first_call_s if self._fresh else self._limits.call_s
        self._fresh = False
        return limit

    def _ask(self, request: Request, expected: type, limit: float) -> Any:
        self._look_at_memory()
        try:
            self._channel.send(request)
        except ChannelClosedError:
            raise self._ended() from None
        return self._receive(expected, limit)

    def _receive(self, expected: type, limit: float) -> Any:
        # What counts is the time that a submission is asked for, not the time that it waits for others.
        limit, start = min(limit, max(0.0, self._left_s)), time.monotonic()
        try:
            reply = self._channel.receive(Reply, limit, self._look_at_memory)
            self._left_s -= time.monotonic() - start
        except ChannelTimeoutError:
            self.kill()
            raise SubmissionFailedError("timeout", f"no answer within {limit:.0f} s") from None
        except ChannelClosedError:
            raise self._ended() from None
        except GarbageError as error:
            self.kill()
            raise SubmissionFailedError("crash", f"garbage instead of an answer: {error}") from None
        if isinstance(reply, Failed):
            raise SubmissionFailedError(reply.status, reply.message)
        if not isinstance(reply, expected):
            self.kill()
            raise SubmissionFailedError("crash", f"an answer out of turn: {type(reply).__name__}")
        return reply

    def _look_at_memory(self) -> None:
        if self._memory is None or not self._memory.exceeded(0 if self._arena is None else self._arena.nbytes):
            return
        self.kill()
        most = f"{self._limits.memory_bytes >> 20} MiB, shared memory and all its processes counted"
        raise SubmissionFailedError("out_of_memory", f"took more memory than {most}")

    def _ended(self) -> SubmissionFailedError:
        try:
            code = self._supervisor.exit_code(timeout=5)
        except TimeoutError:
            self.kill()
            return SubmissionFailedError("crash", "the process closed its channel")
        how = "ended" if code is None else _ending(code)
        said = self._printed.last_line()
        return SubmissionFailedError("crash", f"the process {how} before it answered" + (f": {said}" if said else ""))


def _ending(code: int) -> str:
    if code - SIGNALLED in list(signal.Signals):
        return f"was killed by {signal.Signals(code - SIGNALLED).name}"
    return f"ended with exit code {code}"


class ChildPool:
    """Starts children ahead of need, so that no submission waits for its own, least of all on a GPU."""

    def __init__(self, device: torch.device, limits: Limits, spares: int = 1) -> None:
        self._device = device
        self._limits = limits
        self._count = spares
        self._spares: list[Child] = []

    def take(self) -> Child:
        """Return a child nobody has used, and have the next one start."""
        child = self._spares.pop(0) if self._spares else Child(self._device, self._limits)
        while len(self._spares) < self._count:
            self._spares.append(Child(self._device, self._limits))
        return child

    def settle(self) -> None:
        """Wait until the children that were not taken are up, so that their start disturbs nobody."""
        for spare in self._spares:
            spare.wait()

    def close(self) -> None:
        """End the children that were not taken."""
        while self._spares:
            self._spares.pop().close()


class _Drain(threading.Thread):
    """Reads all that the child prints until nobody is left who can, and keeps the end of it."""

    def __init__(self, stream: IO[bytes], keep: int) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._keep = keep
        self._tail = b""
        self.start()

    def run(self) -> None:
        with self._stream, contextlib.suppress(OSError):
            while piece := os.read(self._stream.fileno(), 1 << 16):
                self._tail = (self._tail + piece)[-self._keep :]

    def last_line(self) -> str:
        """Return the last line that is not blank."""
        self.join(timeout=1)
        lines = [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else ""
