"""Kineto files as torch writes them, made by hand: a few lines a step."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GPU = "NVIDIA H200"


class KinetoBuilder:
    """Collects events; times are microseconds.

    `old` spells categories and arguments as torch 1.8 did. `external` gives kernels the id of their operator.
    """

    BAG = "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<c10::BFloat16>(long const*)"
    GEMM = "nvjet_tst_128x64_64x8_2x1_v_bz_coopA_bias_TNN"
    ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >(int, char*)"

    def __init__(self, old: bool = False, external: bool = True) -> None:
        self.old, self.external = old, external
        self.events: list[dict[str, Any]] = []
        self.header: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": GPU, "totalGlobalMem": 150_000_000_000}],
            "cuda_runtime_version": 13000,
            "cuda_driver_version": 13010,
            "host_name": "secret-host",
            "displayTimeUnit": "ms",
        }
        self.count = 0

    def span(self, category: str, name: str, ts: float, dur: float, tid: int = 100, **args: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": tid, "ts": ts, "dur": dur}
        self.events.append({**event, "args": args})

    def step(self, number: int, ts: float, dur: float) -> None:
        self.span("Operator" if self.old else "user_annotation", f"ProfilerStep#{number}", ts, dur)

    def annotation(self, name: str, ts: float, dur: float) -> None:
        self.span("user_annotation", name, ts, dur)
        self.span("gpu_user_annotation", name, ts, dur, tid=7)

    def launch(
        self,
        kernel: str,
        ts: float,
        start: float,
        dur: float,
        operator: str | None = "aten::add",
        shapes: list[Any] | None = None,
        dtype: str = "c10::BFloat16",
        stream: int = 7,
        device: int = 0,
        tid: int = 100,
        outer: str | None = None,
        correlation: bool = True,
    ) -> None:
        """Add a kernel, the call that launched it at `ts`, and the operator around that."""
        self.count += 1
        number = self.count
        external = "external id" if self.old else "External id"
        if outer is not None:
            self.span("cpu_op", outer, ts - 2, 6, tid)
        if operator is not None:
            named = {external: number, ("Input dims" if self.old else "Input Dims"): shapes or [[4, 8]]}
            kind = "Operator" if self.old else "cpu_op"
            self.span(kind, operator, ts - 1, 4, tid, **named, **{"Input type": [dtype]})
        if correlation:
            self.span("Runtime" if self.old else "cuda_runtime", "cudaLaunchKernel", ts, 1, tid, correlation=number)
        args: dict[str, Any] = {"device": device, "stream": stream, "grid": [1, 1, 1]}
        if correlation:
            args["correlation"] = number
        if self.external and operator is not None:
            args[external] = number
        category = "gpu_memcpy" if kernel.startswith("Mem") else "kernel"
        event = {"ph": "X", "name": kernel, "pid": device, "tid": f"stream {stream}" if self.old else stream}
        category = category.capitalize() if self.old else category
        self.events.append({**event, "cat": category, "ts": start, "dur": dur, "args": args})

    def wait(self, ts: float, dur: float) -> None:
        self.span("cuda_runtime", "cudaDeviceSynchronize", ts, dur, correlation=10_000 + len(self.events))

    def text(self, indent: int | None = None) -> bytes:
        whole = {**self.header, "traceEvents": self.events, "traceName": "/home/somebody/t.json"}
        return json.dumps(whole, indent=indent).encode()

    def write(self, path: Path, indent: int | None = None) -> Path:
        text = self.text(indent)
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def recommender_step(builder: KinetoBuilder, at: float) -> None:
    """Add a step of 1000 us: two bags of 200 us, a matrix product of 300 us, an addition of 100 us; the host waits."""
    builder.launch(builder.BAG, at + 10, at + 20, 200, "aten::_embedding_bag", [[1000, 64], [4000], [128]])
    builder.launch(builder.BAG, at + 20, at + 221, 200, "aten::_embedding_bag", [[1000, 64], [4000], [128]])
    builder.launch(builder.GEMM, at + 30, at + 422, 300, "aten::addmm", [[64], [128, 64], [64, 64], [], []])
    builder.launch(builder.ADD, at + 40, at + 723, 100, "aten::add", [[128, 64], [128, 64], []])
    builder.wait(at + 50, 780)


@pytest.fixture
def kineto() -> type[KinetoBuilder]:
    """Start a Kineto file."""
    return KinetoBuilder


@pytest.fixture
def recommender(tmp_path: Path) -> Callable[..., Path]:
    """Write the profile of some steps of a recommender, of 1000 us each; the first one is left out by the reader."""

    def make(name: str = "dlrm.json", steps: int = 4, **spelling: bool) -> Path:
        builder = KinetoBuilder(**spelling)
        for step in range(steps):
            at = 1e6 + 1000 * step
            builder.step(step, at, 1000)
            recommender_step(builder, at)
        return builder.write(tmp_path / name)

    return make
