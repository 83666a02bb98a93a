"""The card's own word on its state while a submission was timed. Nothing on it is ever set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from dlrm_bench.records import DeviceState, Telemetry

# NVML's reasons for clocks below those asked for that make a time worth less (nvmlClocksEventReasons).
SLOWED_BY = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


class Sensors:
    """NVML's view of one GPU, and what was seen during a race."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._before = self._state()
        self._slowed: list[int] = []

    def look(self, round_number: int) -> None:
        """Note whether the card runs slower than it would, after a round."""
        if self._reasons():
            self._slowed.append(round_number)

    def telemetry(self) -> Telemetry:
        """Return what was seen since these sensors were opened."""
        return Telemetry(self._before, self._state(), self._slowed)

    def _state(self) -> DeviceState:
        nvml, handle = self._nvml, self._handle
        return DeviceState(
            sm_clock_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            power_w=nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            temperature_c=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            slowed_by=self._reasons(),
            processes=len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
        )

    def _reasons(self) -> list[str]:
        bits = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for bit, name in SLOWED_BY.items() if bits & bit]


@contextlib.contextmanager
def open_sensors(device: torch.device) -> Iterator[Sensors | None]:
    """Open the sensors of a GPU; `None` on a CPU, without nvidia-ml-py, or where the driver does not answer."""
    try:
        import pynvml
    except ModuleNotFoundError:
        yield None
        return
    if device.type != "cuda":
        yield None
        return
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        sensors = Sensors(pynvml, handle)
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield sensors
    finally:
        pynvml.nvmlShutdown()
