from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dlrm_bench.errors import NoDeviceError
from dlrm_bench.traces.capture import capture, named_parts, step_times, take_trace
from dlrm_bench.workloads.base import ForwardStep
from dlrm_bench.workloads.registry import open_workload

CPU = torch.device("cpu")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[float]]:
    path = tmp_path_factory.mktemp("capture") / "profile.json"
    ready = open_workload("dlrm-dcnv2-training").start("eager", CPU, "fp32", tiny=True)
    wall_us = capture(ready, CPU, path, steps=3)
    return read(path), wall_us


def test_one_step_more_is_profiled_than_asked_for_and_each_is_marked(captured: Any) -> None:
    profile, wall_us = captured
    marks = [event["name"] for event in profile["traceEvents"] if event.get("name", "").startswith("ProfilerStep#")]
    assert len(marks) == len(set(marks)) == 4
    assert len(wall_us) == 3
    assert min(wall_us) > 0


def test_shapes_are_recorded_and_stacks_are_not(captured: Any) -> None:
    profile, _ = captured
    operators = [event for event in profile["traceEvents"] if event.get("cat") == "cpu_op"]
    assert any(event["args"].get("Input Dims") for event in operators)
    assert not profile.get("with_stack")
    assert not any(event.get("cat") == "python_function" for event in profile["traceEvents"])


def test_every_step_launches_the_same_operators(captured: Any) -> None:
    events = [event for event in captured[0]["traceEvents"] if event.get("ph") == "X"]
    marks = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#"))
    counts = [
        Counter(e["name"] for e in events if e.get("cat") == "cpu_op" and start <= e["ts"] < end)
        for start, end in marks
    ]
    assert counts[1] == counts[2] == counts[3]


def test_a_recommenders_parts_stand_around_their_operators(captured: Any) -> None:
    events = [event for event in captured[0]["traceEvents"] if event.get("ph") == "X"]
    parts = {name: [e for e in events if e["name"] == name] for name in ("embedding", "cross")}
    assert [len(each) for each in parts.values()] == [4, 4]
    bags = [e for e in events if e["name"] == "aten::embedding_bag"]
    inside = [e for e in bags for part in parts["embedding"] if part["ts"] <= e["ts"] <= part["ts"] + part["dur"]]
    assert len(inside) == len(bags) > 0


def test_parts_are_named_only_meanwhile() -> None:
    module = torch.nn.Linear(2, 2)
    with named_parts({"part": module}):
        assert len(module._forward_hooks) == len(module._forward_pre_hooks) == 1
    assert not module._forward_hooks
    assert not module._forward_pre_hooks


def test_step_times_are_as_many_as_asked_for() -> None:
    calls: list[int] = []
    assert len(step_times(lambda: calls.append(1), 4, CPU)) == len(calls) == 4


def test_a_cpu_has_no_kernels_to_show() -> None:
    with pytest.raises(NoDeviceError, match="a trace shows a GPU's kernels, and cpu has none"):
        take_trace(open_workload("dlrm-inference"), "eager", CPU, tiny=True)


def test_the_command_says_so_in_a_line_and_writes_nothing(cli: Callable[..., Any], tmp_path: Path) -> None:
    called = cli("profile", "dlrm-inference", "--tiny", "--device", "cpu", "-o", tmp_path / "traces")
    assert (called.code, called.out) == (3, "")
    assert called.err.count("\n") == 1
    assert not (tmp_path / "traces").exists()


def test_the_command_names_near_workloads(cli: Callable[..., Any]) -> None:
    called = cli("profile", "resnet-50", "--device", "cpu")
    assert called.code == 2
    assert "did you mean resnet50-training" in called.err


def test_a_trace_that_is_there_is_not_overwritten(cli: Callable[..., Any], tmp_path: Path) -> None:
    there = tmp_path / "dlrm-inference-eager.trace.json.gz"
    there.write_bytes(b"kept")
    called = cli("profile", "dlrm-inference", "--tiny", "-o", tmp_path)
    assert called.code == 2
    assert "--force overwrites it" in called.err
    assert there.read_bytes() == b"kept"


@pytest.mark.gpu
def test_a_gpu_gives_a_trace_with_its_kernels_linked() -> None:
    device = torch.device("cuda", 0)
    trace = take_trace(open_workload("dlrm-inference"), "eager", device, tiny=True)
    assert (trace.workload, trace.mode, trace.precision) == ("dlrm-inference-eager", "inference", "bf16")
    assert len(trace.profiled_wall_us) == len(trace.wall_us) == 20
    assert trace.configuration["build"] == "eager"
    assert {row.part for row in trace.rows} >= {"embedding", "interaction"}
    assert trace.linking.unlinked < 0.01


@pytest.mark.gpu
def test_steps_are_timed_to_the_end_of_their_kernels() -> None:
    device = torch.device("cuda", 0)
    step = ForwardStep(torch.nn.Identity(), lambda: (torch.cuda._sleep(10_000_000), torch.zeros(1))[1])
    assert min(step_times(step.step, 3, device)) > 2000
