"""The child: imports one submission, builds its model and calls it when the parent asks.

The submission runs in the same process, and nothing in Python is out of its reach for good: through frames, the garbage
collector or native code it finds what is below. What is easy is made useless here: modes of torch and names that it
replaces. The judge in the parent relies on nothing but outputs and its own clock.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import resource
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

import dlrm_bench
from dlrm_bench.errors import CannotRunError
from dlrm_bench.precisions import DTYPES
from dlrm_bench.records import Failure
from dlrm_bench.sandbox.arena import MappedArena, view_of
from dlrm_bench.sandbox.digest import digests
from dlrm_bench.sandbox.kernels import kernel_timer
from dlrm_bench.sandbox.limits import is_out_of_memory, limit_memory
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
from dlrm_bench.sandbox.poison import poisoned
from dlrm_bench.sandbox.protections import after_driver, before_driver
from dlrm_bench.sandbox.stopwatch import stopwatch

KEPT_CALLS = 3
# Bound before any submission is imported, so that replacing them later changes nothing here.
_Tensor, _clone, _copy_into, _synchronize = torch.Tensor, torch.Tensor.clone, torch.Tensor.copy_, torch.cuda.synchronize
_type, _list, _digests = type, list, digests
_Module = torch.nn.Module
_named_parameters, _named_buffers = _Module.named_parameters, _Module.named_buffers
_NoFunctionModes, _NoDispatchModes = torch._C.DisableTorchFunction, torch._C._DisableTorchDispatch


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """While it lasts no mode of torch's sees what is called, be it one that the submission has left on."""
    with _NoFunctionModes(), _NoDispatchModes():
        yield


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """While it lasts Python looks for no garbage, which takes milliseconds in a process that has torch in it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Runner:
    """Holds the submission and carries out requests."""

    def __init__(self, device: torch.device, arena_descriptor: int) -> None:
        self._device = device
        self._arena_descriptor = arena_descriptor
        self._stopwatch = stopwatch(device)
        self._kernel_timer = kernel_timer(self._stopwatch)
        self._arena: MappedArena | None = None
        self._path = ""
        self._class: Any = None
        self._model: Any = None
        self._sets: list[list[Any]] = []
        self._outputs: list[Any] = []
        self._as_returned: list[Any] = []
        # Bound now, so that methods replaced later are not what is called.
        self._carry_out: dict[type[Request], Callable[[Any], Reply]] = {
            Load: self._load,
            Attach: self._attach,
            Build: self._build,
            Renew: self._renew,
            Call: self._call,
            Give: self._give,
            Time: self._time,
            Profile: self._profile,
            Fetch: self._fetch,
        }

    def handle(self, request: Request) -> Reply:
        """Carry out one request; whatever the submission's code raises becomes a `Failed`."""
        try:
            return self._carry_out[type(request)](request)
        except BaseException as error:
            return Failed(_status(error, loading=isinstance(request, Load)), _describe(error, self._path))

    def _load(self, request: Load) -> Done:
        self._path = request.path
        _set_limits(self._device, request)
        _hide_own_modules()
        spec = importlib.util.spec_from_file_location("submission", request.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self._class = getattr(module, "ModelNew", None)
        if not isinstance(self._class, type):
            raise ImportError("the file defines no class ModelNew")
        return Done()

    def _attach(self, request: Attach) -> Done:
        self._outputs, self._as_returned = [], []
        if self._arena is not None:
            self._arena.close()
        with undisturbed():
            self._arena = MappedArena(request.arena, self._device, self._arena_descriptor)
        return Done()

    def _build(self, request: Build) -> Done:
        self._model, self._outputs, self._as_returned = None, [], []
        self._model = self._constructed(request)
        return Done()

    def _renew(self, request: Renew) -> Done:
        drawn = _weights(self._constructed(request))
        with torch.no_grad(), undisturbed():
            for name, tensor in _weights(self._model).items():
                # What a model has made room for since it was constructed is no weight.
                if name in drawn and drawn[name].shape == tensor.shape:
                    _copy_into(tensor, drawn[name])
        self._finish()
        return Done()

    def _constructed(self, request: Build | Renew) -> Any:
        with torch.device(self._device):
            torch.manual_seed(request.seed)
            model = self._class(*request.init_inputs)
        return model.to(device=self._device, dtype=DTYPES[request.precision])

    def _call(self, request: Call) -> Called:
        arguments = self._arguments(request.arguments)
        with torch.no_grad(), poisoned(self._device, request.poison):
            output = self._model(*arguments)
            with undisturbed():
                # On the stream that the caller uses: work that the submission left on another one is not waited for.
                as_returned = _clone(output) if _type(output) is _Tensor else output
        self._finish()
        self._outputs = [*self._outputs[1 - KEPT_CALLS :], output]
        self._as_returned = [*self._as_returned[1 - KEPT_CALLS :], as_returned]
        with undisturbed():
            return _facts(output)

    def _give(self, request: Give) -> Done:
        self._outputs, self._as_returned = [], []
        self._sets = [self._arguments(each) for each in request.sets]
        return Done()

    def _time(self, request: Time) -> Timed:
        with torch.no_grad(), uncollected():
            times, self._outputs, late = self._stopwatch(
                self._model, self._sets, request.calls, request.flush_bytes, request.hold_cycles
            )
        outputs = _plain_list(self._outputs)
        with undisturbed():
            told = _digests(outputs) if all(_type(each) is _Tensor for each in outputs) else []
        return Timed(times, late, told)

    def _profile(self, request: Profile) -> Profiled:
        with torch.no_grad():
            profiled, self._outputs = self._kernel_timer(self._model, self._sets, request.calls, request.hold_cycles)
        return profiled

    def _fetch(self, request: Fetch) -> Done:
        kept = _plain_list(self._as_returned if request.as_returned else self._outputs)
        with undisturbed():
            target, output = self._view(request.into), kept[request.call]
            if _type(output) is not _Tensor or output.shape != target.shape or output.dtype != target.dtype:
                raise TypeError(f"forward returned {_name(output)} while it was timed, not what it returned before")
            # By a copy, since an output may be the very memory that it is wanted in.
            _copy_into(target, _clone(output))
        self._finish()
        return Done()

    def _arguments(self, arguments: list[Argument]) -> list[Any]:
        with undisturbed():
            return [self._view(each) if isinstance(each, TensorRef) else each for each in arguments]

    def _view(self, ref: TensorRef) -> torch.Tensor:
        assert self._arena is not None
        return view_of(self._arena.memory, ref)

    def _finish(self) -> None:
        if self._device.type == "cuda":
            _synchronize(self._device)


def _weights(model: Any) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name; what is no module has none."""
    return {**dict(_named_parameters(model)), **dict(_named_buffers(model))} if isinstance(model, _Module) else {}


def _plain_list(kept: Any) -> list[Any]:
    if _type(kept) is not _list:
        raise TypeError("what forward returned is kept in a list, and somebody has replaced it")
    return kept  # type: ignore[no-any-return]


def _facts(output: Any) -> Called:
    if _type(output) is not _Tensor:
        return Called(_name(output))
    return Called("Tensor", str(output.dtype).removeprefix("torch."), tuple(output.shape), output.device.type)


def _name(output: Any) -> str:
    name = printable(_type(output).__name__)
    return name if _type(output) is _Tensor or name != "Tensor" else "an object of another class named Tensor"


def _hide_own_modules() -> None:
    """Take the modules of this process out of reach of an import: whoever asks for them by name gets new ones."""
    for name in [each for each in sys.modules if f"{each}.".startswith(f"{dlrm_bench.__name__}.sandbox.")]:
        del sys.modules[name]
    vars(dlrm_bench).pop("sandbox", None)
    sys.modules["__main__"] = ModuleType("__main__")


def _set_limits(device: torch.device, limits: Load) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.open_files, limits.open_files))
    limit_memory(device, limits.memory_bytes)


def _status(error: BaseException, loading: bool) -> Failure:
    text = str(error).lower()
    if is_out_of_memory(error):
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
    return printable(f"{type(error).__name__}: {first_line}") + where


def work(start: Start, channel_descriptor: int, arena_descriptor: int, line: int) -> None:
    """Go on as the child: give up what no submission needs, then serve requests until the parent closes the channel."""
    protections = before_driver([channel_descriptor, arena_descriptor], line, start.shared_bytes, start.device)
    channel, device = Channel(socket.socket(fileno=channel_descriptor)), torch.device(start.device)
    runner = Runner(device, arena_descriptor)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.zeros(1, device=device)
    torch.backends.cudnn.allow_tf32 = False
    send, receive, handle = channel.send, channel.receive, runner.handle
    with contextlib.suppress(ChannelClosedError):
        send(Ready([*protections, *after_driver(device.type)]))
        while True:
            send(handle(receive(Request)))
