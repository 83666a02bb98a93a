"""The child: imports one submission, builds its model and calls it when the parent asks.

Started as `python -m dlrm_bench.sandbox.worker FD DEVICE`, with the channel on file descriptor FD.
"""

from __future__ import annotations

import contextlib
import importlib.util
import resource
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from dlrm_bench.errors import CannotRunError
from dlrm_bench.records import Failure
from dlrm_bench.sandbox.arena import MappedArena, view_of
from dlrm_bench.sandbox.messages import (
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
    Ready,
    Reply,
    Request,
    TensorRef,
    Time,
    Timed,
)
from dlrm_bench.sandbox.stopwatch import Stopwatch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
MESSAGE_CHARS = 1500
OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory")


class Runner:
    """Holds the submission and carries out requests."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stopwatch = Stopwatch(device)
        self._arena: MappedArena | None = None
        self._path = ""
        self._class: Any = None
        self._model: Any = None
        self._outputs: list[Any] = []

    def handle(self, request: Request) -> Reply:
        """Carry out one request; whatever the submission's code raises becomes a `Failed`."""
        try:
            return self._carry_out(request)
        except BaseException as error:
            return Failed(_status(error, loading=isinstance(request, Load)), _describe(error, self._path))

    def _carry_out(self, request: Request) -> Reply:
        match request:
            case Load():
                self._load(request)
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

    def _load(self, request: Load) -> None:
        self._path = request.path
        _set_limits(self._device, request)
        spec = importlib.util.spec_from_file_location("submission", request.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self._class = getattr(module, "ModelNew", None)
        if not isinstance(self._class, type):
            raise ImportError("the file defines no class ModelNew")

    def _attach(self, request: Attach) -> None:
        self._outputs = []
        if self._arena is not None:
            self._arena.close()
        self._arena = MappedArena(request.arena, self._device)

    def _build(self, request: Build) -> None:
        self._model, self._outputs = None, []
        with torch.device(self._device):
            torch.manual_seed(request.seed)
            model = self._class(*request.init_inputs)
        self._model = model.to(device=self._device, dtype=DTYPES[request.precision])

    def _call(self, request: Call) -> Called:
        arguments = [self._argument(each) for each in request.arguments]
        with torch.no_grad():
            output = self._model(*arguments)
        self._finish()
        self._outputs = [output]
        if type(output) is not torch.Tensor:
            return Called(type(output).__name__)
        return Called("Tensor", str(output.dtype).removeprefix("torch."), tuple(output.shape), output.device.type)

    def _time(self, request: Time) -> Timed:
        sets = [[self._argument(each) for each in one] for one in request.sets]
        with torch.no_grad():
            times, host = self._stopwatch.block(self._model, sets, request.calls, request.flush_bytes)
        self._outputs = self._stopwatch.outputs
        return Timed(times, host)

    def _fetch(self, request: Fetch) -> None:
        target, output = self._view(request.into), self._outputs[request.call]
        if type(output) is not torch.Tensor or output.shape != target.shape or output.dtype != target.dtype:
            raise TypeError(f"forward returned {type(output).__name__} while it was timed, not what it returned before")
        target.copy_(output)
        self._finish()

    def _argument(self, argument: Argument) -> Any:
        return self._view(argument) if isinstance(argument, TensorRef) else argument

    def _view(self, ref: TensorRef) -> torch.Tensor:
        assert self._arena is not None
        return view_of(self._arena.memory, ref)

    def _finish(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


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
    device = torch.device(sys.argv[2])
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    runner = Runner(device)
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
