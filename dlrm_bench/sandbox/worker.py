"""The child: imports one submission, builds its model and calls it when the parent asks.

Started as `python -m dlrm_bench.sandbox.worker CHANNEL ARENA DEVICE`, the first two being file descriptors.
"""

from __future__ import annotations

import sys

from dlrm_bench.sandbox.protections import isolate_network, restrict_writes, stay_in_reach

# Before torch is imported: only a process with one thread can change its namespaces.
EARLY_PROTECTIONS = [*isolate_network(), *stay_in_reach()] if __name__ == "__main__" else []

import contextlib  # noqa: E402
import importlib.util  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

from dlrm_bench.errors import CannotRunError  # noqa: E402
from dlrm_bench.precisions import DTYPES  # noqa: E402
from dlrm_bench.records import Failure  # noqa: E402
from dlrm_bench.sandbox.arena import MappedArena, view_of  # noqa: E402
from dlrm_bench.sandbox.messages import (  # noqa: E402
    Argument,
    Attach,
    Build,
    Call,
    Called,
    Channel,
    ChannelClosedError,
    Done,
    Failed,
    Fetch,
    Load,
    Loaded,
    Ready,
    Reply,
    Request,
    TensorRef,
    Time,
    Timed,
)
from dlrm_bench.sandbox.poison import poisoned  # noqa: E402
from dlrm_bench.sandbox.stopwatch import Stopwatch  # noqa: E402

KEPT_CALLS = 3
MESSAGE_CHARS = 1500
OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory")
# Bound before any submission is imported, so that replacing them later changes nothing here.
_Tensor, _clone, _copy_into, _synchronize = torch.Tensor, torch.Tensor.clone, torch.Tensor.copy_, torch.cuda.synchronize


class Runner:
    """Holds the submission and carries out requests."""

    def __init__(self, device: torch.device, arena_descriptor: int) -> None:
        self._device = device
        self._arena_descriptor = arena_descriptor
        self._stopwatch = Stopwatch(device)
        self._arena: MappedArena | None = None
        self._path = ""
        self._class: Any = None
        self._model: Any = None
        self._outputs: list[Any] = []
        self._as_returned: list[Any] = []

    def handle(self, request: Request) -> Reply:
        """Carry out one request; whatever the submission's code raises becomes a `Failed`."""
        try:
            return self._carry_out(request)
        except BaseException as error:
            return Failed(_status(error, loading=isinstance(request, Load)), _describe(error, self._path))

    def _carry_out(self, request: Request) -> Reply:
        match request:
            case Load():
                return self._load(request)
            case Attach():
                self._attach(request)
            case Build():
                self._build(request)
            case Call():
                return self._call(request)
            case Time():
                return self._time(request)
            case Fetch():
                self._fetch(request)
        return Done()

    def _load(self, request: Load) -> Loaded:
        self._path = request.path
        _set_limits(self._device, request)
        protections = [*EARLY_PROTECTIONS, *restrict_writes([os.path.dirname(request.path)])]
        spec = importlib.util.spec_from_file_location("submission", request.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self._class = getattr(module, "ModelNew", None)
        if not isinstance(self._class, type):
            raise ImportError("the file defines no class ModelNew")
        return Loaded(protections)

    def _attach(self, request: Attach) -> None:
        self._outputs, self._as_returned = [], []
        if self._arena is not None:
            self._arena.close()
        self._arena = MappedArena(request.arena, self._device, self._arena_descriptor)

    def _build(self, request: Build) -> None:
        self._model, self._outputs, self._as_returned = None, [], []
        with torch.device(self._device):
            torch.manual_seed(request.seed)
            model = self._class(*request.init_inputs)
        self._model = model.to(device=self._device, dtype=DTYPES[request.precision])

    def _call(self, request: Call) -> Called:
        arguments = [self._argument(each) for each in request.arguments]
        with torch.no_grad(), poisoned(self._device, request.poison):
            output = self._model(*arguments)
            # On the stream that the caller uses: work that the submission left on another one is not waited for.
            as_returned = _clone(output) if type(output) is _Tensor else output
        self._finish()
        self._outputs = [*self._outputs[1 - KEPT_CALLS :], output]
        self._as_returned = [*self._as_returned[1 - KEPT_CALLS :], as_returned]
        if type(output) is not _Tensor:
            return Called(type(output).__name__)
        return Called("Tensor", str(output.dtype).removeprefix("torch."), tuple(output.shape), output.device.type)

    def _time(self, request: Time) -> Timed:
        sets = [[self._argument(each) for each in one] for one in request.sets]
        self._outputs, self._as_returned = [], []
        with torch.no_grad():
            times, host = self._stopwatch.block(
                self._model, sets, request.calls, request.flush_bytes, request.queue_ahead
            )
        self._outputs = self._stopwatch.outputs
        return Timed(times, host)

    def _fetch(self, request: Fetch) -> None:
        kept = self._as_returned if request.as_returned else self._outputs
        target, output = self._view(request.into), kept[request.call]
        if type(output) is not _Tensor or output.shape != target.shape or output.dtype != target.dtype:
            raise TypeError(f"forward returned {type(output).__name__} while it was timed, not what it returned before")
        _copy_into(target, output)
        self._finish()

    def _argument(self, argument: Argument) -> Any:
        return self._view(argument) if isinstance(argument, TensorRef) else argument

    def _view(self, ref: TensorRef) -> torch.Tensor:
        assert self._arena is not None
        return view_of(self._arena.memory, ref)

    def _finish(self) -> None:
        if self._device.type == "cuda":
            _synchronize(self._device)


def _set_limits(device: torch.device, limits: Load) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.open_files, limits.open_files))
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limits.memory_bytes / total), device)
    elif (status := Path("/proc/self/status")).exists():
        used = int(status.read_text().split("VmData:")[1].split()[0]) << 10
        resource.setrlimit(resource.RLIMIT_DATA, (used + limits.memory_bytes, used + limits.memory_bytes))


def _status(error: BaseException, loading: bool) -> Failure:
    text = str(error).lower()
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(words in text for words in OUT_OF_MEMORY_WORDS):
        return "out_of_memory"
    if "cuda error" in text:
        return "crash"
    if isinstance(error, (NotImplementedError, ModuleNotFoundError, CannotRunError)):
        return "unsupported"
    return "compile_error" if loading or type(error).__module__.startswith("triton.") else "runtime_error"


def _describe(error: BaseException, path: str) -> str:
    """Return the error in one line, with the submission's own line nearest to it."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f" (line {lines[-1]})" if lines else ""
    if isinstance(error, SyntaxError) and error.lineno:
        first_line, where = str(error.msg), f" (line {error.lineno})"
    return f"{type(error).__name__}: {first_line}"[:MESSAGE_CHARS] + where


def main() -> None:
    """Serve requests until the parent closes the channel."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    device = torch.device(sys.argv[3])
    runner = Runner(device, int(sys.argv[2]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.zeros(1, device=device)
    torch.backends.cudnn.allow_tf32 = False
    with contextlib.suppress(ChannelClosedError):
        channel.send(Ready())
        while True:
            channel.send(runner.handle(channel.receive(Request)))


if __name__ == "__main__":
    main()
