"""`trace` and `project`, as people call them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dlrm_bench
from dlrm_bench.paths import traces_dir
from dlrm_bench.traces.load import load_trace
from dlrm_bench.traces.store import check_index, encode_trace, write_index, write_trace

Call = Callable[..., Any]
H200 = traces_dir() / "h200"
BAG = "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float>(long const*)"
SHOWN = ("embedding_forward", "gemm", "wall of a step", "kernel time without communication", "Test GPU, fp32, 1 steps")


@pytest.fixture
def kineto_file(tmp_path: Path) -> Path:
    """One step of 100 us on `Test GPU`: 60 us in an embedding bag, 20 us in a matrix product."""

    def kernel(number: int, name: str, operator: str, start: float, duration: float) -> list[dict[str, Any]]:
        host = {"ph": "X", "pid": 1, "tid": 1, "dur": 1}
        return [
            {
                **host,
                "cat": "cpu_op",
                "name": operator,
                "ts": number,
                "args": {"External id": number, "Input type": ["float"], "Input Dims": [[8, 4]]},
            },
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": number, "args": {"correlation": number}},
            {
                **host,
                "cat": "kernel",
                "name": name,
                "ts": start,
                "dur": duration,
                "args": {"External id": number, "correlation": number, "device": 0, "stream": 7},
            },
        ]

    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100}
    wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 5, "dur": 95}
    events = [
        step,
        *kernel(1, BAG, "aten::_embedding_bag", 8, 60),
        *kernel(2, "nvjet_tst_128x64", "aten::mm", 69, 20),
        wait,
    ]
    path = tmp_path / "step.json"
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "Test GPU"}], "traceEvents": events}))
    return path


@pytest.fixture
def results_file(tmp_path: Path, make_result: Call, make_comparison: Call) -> Path:
    """Results of problem 1 on `Test GPU`, 4 times as fast as eager."""
    result = make_result(1, "kernel", comparisons=[make_comparison("eager", 4.0, "win")])
    path = tmp_path / "results.jsonl"
    path.write_bytes(msgspec.json.encode(result) + b"\n")
    return path


def test_trace_prints_classes_and_fractions(cli: Call, kineto_file: Path) -> None:
    called = cli("trace", kineto_file)
    assert (called.code, called.err) == (0, "")
    for part in SHOWN:
        assert part in called.out


def test_trace_as_json(cli: Call, kineto_file: Path) -> None:
    summary = cli("trace", kineto_file, "--policy", "all_compute", "--json").json
    assert [each["operation"] for each in summary["classes"]] == ["embedding_forward", "gemm"]
    assert {each["denominator"]: each["fraction"] for each in summary["addressable"]}["wall"] == 0.8
    assert summary["wall_is_profiled"]


def test_trace_writes_a_reduced_trace_that_it_reads_like_the_first(
    cli: Call, kineto_file: Path, tmp_path: Path
) -> None:
    reduced = tmp_path / "step.trace.json.gz"
    first = cli("trace", kineto_file, "-o", reduced, "--json").json
    assert cli("trace", reduced, "--json").json == first
    before = reduced.read_bytes()
    called = cli("trace", kineto_file, "-o", reduced)
    assert (called.code, called.out) == (2, "")
    assert "exists already; --force overwrites it" in called.err
    assert cli("trace", kineto_file, "-o", reduced, "--force").code == 0
    assert reduced.read_bytes() == before


def test_a_reduced_trace_is_kept_by_the_rules_of_today_and_its_index_with_it(
    cli: Call, kineto_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "step.trace.json.gz"
    trace = load_trace(kineto_file)
    old = [msgspec.structs.replace(row, operation="other", owner="mine") for row in trace.rows]
    write_trace(msgspec.structs.replace(trace, rules=0, rows=old), path)
    write_index(tmp_path)
    assert cli("trace", path, "-o", path, "--force").code == 0
    assert path.read_bytes() == encode_trace(trace)
    assert check_index(tmp_path) == [path]


def test_several_traces_are_a_line_each(cli: Call, kineto_file: Path) -> None:
    called = cli("trace", kineto_file, kineto_file, "--format", "md")
    lines = called.out.strip().splitlines()
    assert (called.code, len(lines)) == (0, 4)
    assert lines[3] == ("| step | 0.10 | 0.08 | 0.08 | 60% | 75% | 75% | 75% | embedding_forward 75%, gemm 25% |")
    assert "Steps of workloads" in cli("trace", kineto_file, kineto_file).out
    several = cli("trace", kineto_file, kineto_file, "--json").json
    assert several == [cli("trace", kineto_file, "--json").json] * 2


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "message"),
    [
        (["trace", "nothing.json"], 3, "missing_file", "no file nothing.json"),
        (["trace", "FILE", "--policy", "mine"], 2, "usage", "no policy 'mine'"),
        (["trace", "FILE", "-o", "out.json"], 2, "usage", "must end in .trace.json.gz"),
        (["trace", "FILE", "FILE", "-o", "a.trace.json.gz"], 2, "usage", "one reduced trace, and 2 files were given"),
        (["trace", "BROKEN"], 2, "bad_trace", "cut short or damaged"),
        (["project"], 2, "usage", "project what?"),
        (["project", "FILE", "--paper", "0.5", "0.5", "2"], 2, "usage", "leave TRACE, --results and --measured out"),
        (["project", "--paper", "0.5", "1/0", "2"], 2, "usage", "'1/0' is no number"),
        (["project", "--paper", "1.5", "0.5", "2"], 2, "usage", "must lie within 0 and 1"),
        (["project", "FILE"], 3, "missing_file", "no reference results for Test GPU"),
        (["project", "FILE", "--figure", "a.svg"], 2, "usage", "name the splices with --measured"),
        (["project", "--measured", "FILE", "--force"], 2, "usage", "leave --submission, --fallback and --force out"),
        (["project", "--measured", "FILE"], 2, "usage", "is not what `dlrm-bench splice --json` prints, one a line"),
        (["project", "--measured", "none"], 3, "missing_file", "cannot read none"),
        (["project", "FILE", "--results", "none"], 3, "missing_file", "cannot read none"),
        (["project", "OTHER", "--results", "RESULTS"], 2, "results_do_not_fit", "results from Test GPU, trace from Q1"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    cli: Call,
    kineto_file: Path,
    results_file: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    kind: str,
    message: str,
) -> None:
    text = kineto_file.read_text()
    places = {"FILE": kineto_file, "RESULTS": results_file, "BROKEN": tmp_path / "b.json", "OTHER": tmp_path / "o.json"}
    places["BROKEN"].write_text(text[:-300])
    places["OTHER"].write_text(text.replace("Test GPU", "Q1"))
    called = cli(*(places.get(each, each) for each in arguments), "--json")
    assert called.code == code
    assert called.json["error"]["kind"] == kind
    assert message in called.json["error"]["message"]
    assert "\n" not in called.json["error"]["message"]


def test_the_papers_formula_by_hand(cli: Call) -> None:
    called = cli("project", "--paper", "0.582", "5/12", "1.552")
    assert "8.63% of the step saved, a speedup of 1.094" in called.out
    assert round(cli("project", "--paper", "0.582", "5/12", "1.552", "--json").json["saved"], 4) == 0.0863


def test_project_prints_every_method_and_what_stands_for_what(cli: Call, kineto_file: Path, results_file: Path) -> None:
    called = cli("project", kineto_file, "--results", results_file)
    assert (called.code, called.err) == (0, "")
    for part in (
        "EmbeddingBagSum",
        "matched",
        "replay of launches",
        "bound: roofline",
        "45.00%",
        "1.818",
        "kernel on step",
    ):
        assert part in called.out


def test_project_as_json(cli: Call, kineto_file: Path, results_file: Path) -> None:
    projection = cli("project", kineto_file, "--results", results_file, "--json").json
    saved = {each["method"]: each["saved"] for each in projection["savings"]}
    assert saved["matched"] == pytest.approx(0.45)
    assert saved["replay"] == pytest.approx(0.45)
    assert projection["identity"]["valid"]


def test_another_gpu_is_labelled_when_forced(cli: Call, kineto_file: Path, results_file: Path) -> None:
    kineto_file.write_text(kineto_file.read_text().replace("Test GPU", "Q1"))
    called = cli("project", kineto_file, "--results", results_file, "--force")
    assert called.code == 0
    assert "forced: results from Test GPU, trace from Q1" in called.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["trace", "FILE"],
        ["project", "FILE", "--results", "RESULTS"],
        ["project", "--measured", H200 / "splice.jsonl", "--results", H200 / "standard.jsonl"],
        ["project", "-h"],
    ],
)
def test_neither_imports_torch(python: Call, kineto_file: Path, results_file: Path, arguments: list[str]) -> None:
    places = {"FILE": kineto_file, "RESULTS": results_file}
    script = "import sys; from dlrm_bench.cli import run; print(run(sys.argv[1:]), 'torch' in sys.modules)"
    called = python("-c", script, *(places.get(each, each) for each in arguments))
    assert called.out.strip().endswith("0 False"), called.err


def test_from_python(kineto_file: Path, results_file: Path) -> None:
    trace = dlrm_bench.load_trace(kineto_file)
    assert trace == load_trace(str(kineto_file))
    results = dlrm_bench.read_results(results_file)
    (matched,) = (each for each in dlrm_bench.project(trace, results).savings if each.method == "matched")
    assert matched.saved == pytest.approx(0.45)
    with pytest.raises(AttributeError, match="nothing"):
        dlrm_bench.nothing  # noqa: B018
