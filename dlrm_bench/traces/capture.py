"""Profile a workload with torch.profiler, and time the same steps without it.

Steps are warmed up, and the host waits for the device at the end of each, so that every kernel lies in the step that
launched it. Stacks are not recorded: they slow the host down, and would show gaps on the GPU that are not there. The
first profiled step is one more than was asked for, since the profiler may miss kernels of it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import dlrm_bench
from dlrm_bench.environment import default_precision, describe
from dlrm_bench.errors import NoDeviceError
from dlrm_bench.records import Provenance, Trace
from dlrm_bench.traces.profile import read_profile
from dlrm_bench.traces.reduce import reduce_profile
from dlrm_bench.traces.store import encode_trace
from dlrm_bench.workloads.base import Build, Ready, Workload

WARM_UP = 5
PROFILER_WARM_UP = 2
STEPS = 20
DISCARDED = 1
LARGEST_BYTES = 64 << 10
"""Of a reduced trace with the launches of a step; a larger one is kept without them."""


def take_trace(workload: Workload, build: Build, device: torch.device, *, tiny: bool = False) -> Trace:
    """Build a workload, profile it, and reduce the profile.

    Args:
        workload: which.
        build: how it is built.
        device: a GPU.
        tiny: whether to take the tiny configuration.

    Raises:
        NoDeviceError: the device is a CPU, which runs no kernels that a trace could show.
    """
    if device.type != "cuda":
        raise NoDeviceError(
            f"a trace shows a GPU's kernels, and {device} has none; say --device cuda on a GPU's machine"
        )
    precision = default_precision(device)
    ready = workload.start(build, device, precision, tiny=tiny)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        wall_us = capture(ready, device, path)
        trace = reduce_profile(
            read_profile(path),
            workload.label(build),
            mode=workload.mode,
            precision=precision,
            configuration={**msgspec.to_builtins(workload.configuration(tiny)), "build": build},
            provenance=provenance(device),
            wall_us=wall_us,
        )
    return trace if len(encode_trace(trace)) <= LARGEST_BYTES else msgspec.structs.replace(trace, launches=None)


def provenance(device: torch.device) -> Provenance:
    """Return where a trace is taken, by allow-list."""
    environment = describe(device)
    return Provenance(
        gpu=environment.device,
        driver=environment.driver,
        cuda=environment.cuda,
        torch=environment.torch,
        dlrm_bench=dlrm_bench.__version__,
    )


def capture(ready: Ready, device: torch.device, path: Path, steps: int = STEPS) -> list[float]:
    """Write a Kineto file of some steps, each marked `ProfilerStep#n`, with the workload's parts named.

    Args:
        ready: the workload.
        device: where it runs.
        path: of the Kineto file; gzipped if it ends in .gz.
        steps: how many; one more, which comes first, is to be left out.

    Returns:
        The microseconds of as many steps without the profiler.
    """
    step_times(ready.step, WARM_UP, device)
    wall_us = step_times(ready.step, steps, device)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    profiled = DISCARDED + steps
    with (
        named_parts(ready.parts),
        profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=PROFILER_WARM_UP, active=profiled, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
            with_stack=False,
            profile_memory=False,
            # There is one cycle; said in either way, or some releases warn that events of earlier ones are lost.
            acc_events=True,
        ) as profiler,
    ):
        for _ in range(PROFILER_WARM_UP + profiled):
            ready.step()
            wait_for(device)
            profiler.step()
    return wall_us


def step_times(step: Callable[[], Any], steps: int, device: torch.device) -> list[float]:
    """Return the microseconds of some steps, from a device at rest to a device at rest."""
    times: list[float] = []
    for _ in range(steps):
        wait_for(device)
        begin = time.perf_counter()
        step()
        wait_for(device)
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done all that was launched; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def named_parts(parts: Mapping[str, nn.Module]) -> Iterator[None]:
    """Have the forward pass of some modules stand under their names in a profile."""
    open_marks: list[Any] = []

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            open_marks.append(record_function(name))
            open_marks[-1].__enter__()

        return hook

    def leave(*_: Any) -> None:
        open_marks.pop().__exit__(None, None, None)

    hooks = [hook for name, module in parts.items() for hook in _hooks(module, enter(name), leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hooks(module: nn.Module, enter: Callable[..., None], leave: Callable[..., None]) -> list[Any]:
    return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
