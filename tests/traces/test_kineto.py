"""Kineto files of any spelling, whole and broken."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from dlrm_bench.errors import MissingFileError, TraceError
from dlrm_bench.traces import kineto as kineto_module
from dlrm_bench.traces.kineto import KinetoFile
from dlrm_bench.traces.load import load_trace
from dlrm_bench.traces.profile import collect_profile, read_profile


def names(path: Path) -> list[str]:
    return [event.name for event in KinetoFile(path).events()]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("block", [16 << 20, 1000, 100, 7])
def test_every_event_is_read_whatever_the_layout_and_the_size_of_a_block(
    kineto: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None, block: int
) -> None:
    builder = kineto()
    for number in range(50):
        builder.launch(f'kernel {number} }}, {{ ] \\ "', 10 * number, 10 * number + 5, 3)
    path = builder.write(tmp_path / "a.json", indent)
    monkeypatch.setattr(kineto_module, "BLOCK_BYTES", block)
    assert names(path) == [event["name"] for event in builder.events]


def test_the_header_counts_wherever_it_stands(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch("k", 0, 1, 1)
    before, behind, bare = (tmp_path / f"{name}.json" for name in ("before", "behind", "bare"))
    builder.write(before)
    behind.write_text(json.dumps({"traceEvents": builder.events, **builder.header}))
    bare.write_text(json.dumps(builder.events))
    found = []
    for path in (before, behind, bare):
        file = KinetoFile(path)
        assert len(list(file.events())) == 3
        found.append([each.name for each in file.header.device_properties])
    assert found == [["NVIDIA H200"], ["NVIDIA H200"], []]


def test_a_gzipped_file_is_read_by_its_content_and_not_by_its_name(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch("k", 0, 1, 1)
    packed = tmp_path / "trace.json"
    packed.write_bytes(gzip.compress(builder.text()))
    assert len(names(packed)) == 3


def cut(text: bytes) -> bytes:
    return text[: len(text) // 2]


BROKEN: dict[str, tuple[bytes | Callable[[bytes], bytes], str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "cut short": (cut, "is cut short or damaged"),
    "gzip cut short": (lambda text: cut(gzip.compress(text)), "damaged or cut short"),
    "gzip damaged": (lambda text: gzip.compress(text)[:40] + b"\0" * 300, "damaged or cut short"),
    "no JSON": (b"timeline\x00\x01", "neither a Kineto file"),
    "a program": (b"\x7fELF" * 100, "neither a Kineto file"),
    "foreign JSON": (b'{"a": 1}', "neither a Kineto file"),
    "no object": (b'"traceEvents"', "is no JSON"),
    "a string for a time": (b'{"traceEvents": [{"ph": "X", "name": "k", "ts": "soon"}]}', r"Expected `float \| null`"),
    "a number for an event": (b'{"traceEvents": [1, 2]}', "Expected `object`"),
    "no events": (b'{"traceEvents": []}', "has no kernels"),
    "events of others": (b'{"traceEvents": [{"ph": "X", "cat": "blink", "ts": 1, "dur": 1}]}', r"blink \(1\)"),
    "an object for events": (b'{"traceEvents": {}}', "no traceEvents"),
    "nested without end": (b'{"traceEvents": [' + b'{"args": [' + b"[" * 100_000, "cut short or damaged"),
    "arguments of another kind": (
        b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"correlation": []}}]}',
        r"event 'k' at 1.0 us: args",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_gets_one_clear_line(kineto: Any, tmp_path: Path, how: str) -> None:
    builder = kineto()
    for number in range(20):
        builder.launch("k", 10 * number, 10 * number + 5, 3)
    text, message = BROKEN[how]
    path = tmp_path / "broken.json"
    path.write_bytes(text if isinstance(text, bytes) else text(builder.text()))
    with pytest.raises(TraceError, match=message) as caught:
        load_trace(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"nowhere\.json: No such file"):
        load_trace(tmp_path / "nowhere.json")
    with pytest.raises(MissingFileError, match="Is a directory"):
        load_trace(tmp_path)


@given(st.data())
def test_a_file_cut_anywhere_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    events = [{"ph": "X", "cat": "kernel", "name": "k}, {", "ts": 1, "dur": 1, "args": {"a": [{}, {}]}}] * 3
    text = json.dumps({"traceEvents": events, "traceName": "x"}).encode()
    length = data.draw(st.integers(0, len(text)))
    path = tmp_path_factory.mktemp("cut") / "t.json"
    path.write_bytes(text[:length])
    try:
        assert len(names(path)) == 3
        assert length > text.rindex(b"]")
    except TraceError:
        assert length <= text.rindex(b"]")


def test_memory_stays_bounded_by_a_block(kineto: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_module, "BLOCK_BYTES", 1 << 16)
    builder = kineto()
    for number in range(3000):
        builder.launch("k" * 1000, 10 * number, 10 * number + 5, 3)
    path = builder.write(tmp_path / "large.json")
    assert path.stat().st_size > 4 << 20
    tracemalloc.start()
    count = sum(1 for _ in KinetoFile(path).events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 9000
    assert peak < 1 << 20


def test_what_torch_writes_on_a_cpu_has_operators_and_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    profile_on_cpu(path)
    with pytest.raises(TraceError, match=r"\d+ operators and nothing that ran on a GPU; profile with"):
        read_profile(path)


def test_what_torch_writes_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    profile_on_cpu(path)
    profile = collect_profile(path)
    linear = next(each for each in profile.operators if each.name == "aten::addmm")
    assert linear.shapes == [[8], [4, 8], [8, 8], [], []]
    assert linear.dtype == "float"
    assert {each.name for each in profile.annotations} >= {"interaction"}
    assert [each.name for each in profile.steps] == ["ProfilerStep#1", "ProfilerStep#2"]


def profile_on_cpu(path: Path) -> None:
    model, values = torch.nn.Linear(8, 8), torch.randn(4, 8)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        record_shapes=True,
    ) as profiler:
        for _ in range(3):
            with record_function("interaction"):
                model(values).sum().backward()
            profiler.step()


EVENTS_OF_A_LAUNCH = """  {
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 100, "tid": 100,
    "ts": %(ts)d.125, "dur": 30.125,
    "args": {
      "External id": %(id)d,"Record function id": 0, "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], "Input Dims": [[512], [2048, 512], []], "Ev Idx": %(id)d
    }
  },
  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 100, "tid": 100,
    "ts": %(ts)d.5, "dur": 4.125,
    "args": {
      "External id": %(id)d, "cbid": 430, "correlation": %(id)d
    }
  },
  {
    "ph": "s", "id": %(id)d, "pid": 100, "tid": 100, "ts": %(ts)d,
    "cat": "ac2g", "name": "ac2g"
  },
  {
    "ph": "X", "cat": "kernel", "name": "nvjet_tst_128x64_64x8_2x1_v_bz_coopA_bias_TNN", "pid": 0, "tid": 7,
    "ts": %(ts)d.75, "dur": 25.312,
    "args": {
      "External id": %(id)d, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": %(id)d, "registers per thread": 168, "shared memory": 213248, "grid": [132, 1, 1], "block": [384, 1, 1]
    }
  },
"""  # noqa: E501


@pytest.mark.slow
def test_half_a_gigabyte_would_take_a_minute_and_four_gigabytes_at_most(
    python: Callable[..., Any], tmp_path: Path
) -> None:
    """A tenth of that, in a process of its own."""
    path = tmp_path / "large.json"
    with path.open("w") as stream:
        stream.write('{"traceEvents": [\n')
        for number in range(50_000):
            stream.write(EVENTS_OF_A_LAUNCH % {"ts": 40 * number, "id": number})
        stream.write('  {"ph": "i", "name": "Record Window End", "ts": 1}\n]}\n')
    assert path.stat().st_size > 50e6
    script = """
import pathlib, re, sys, time
from dlrm_bench.traces.load import load_trace
trace = load_trace(sys.argv[1])
most = re.search(r"VmHWM:\\s*(\\d+)", pathlib.Path("/proc/self/status").read_text())
print(trace.rows[0].launches, time.process_time(), most[1])
"""
    launches, seconds, kilobytes = python("-c", script, path).out.split()
    assert int(launches) == 50_000
    assert float(seconds) < 6
    assert int(kilobytes) < 400_000
