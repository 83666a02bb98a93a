"""Projected beside measured, on the records of the repository; and what docs/projection.md says of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec
import pytest

from dlrm_bench.errors import MismatchError, UsageError
from dlrm_bench.paths import traces_dir
from dlrm_bench.projection.measured import project_spliced, read_splices
from dlrm_bench.records import Method, Result, Splice, Trace
from dlrm_bench.report.figure import draw_figure
from dlrm_bench.report.workloads import measured_rows
from dlrm_bench.runs import read_results
from dlrm_bench.traces.load import load_trace
from dlrm_bench.traces.summary import summarise, wall_us

Call = Callable[..., Any]
H200 = traces_dir() / "h200"
SPLICES = {done.workload: done for done in read_splices(H200 / "splice.jsonl")}
MEASURED = ("--measured", H200 / "splice.jsonl", "--results", H200 / "standard.jsonl")
RECOMMENDERS = [f"dlrm-{name}-{build}" for name in ("inference", "dcnv2-training") for build in ("eager", "fused")]


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return read_results(H200 / "standard.jsonl")


def trace_of(workload: str) -> Trace:
    return load_trace(H200 / f"{workload}.trace.json.gz")


@pytest.fixture(scope="module")
def beside(results: list[Result]) -> dict[str, Splice]:
    """Return the splices by workload, with what was projected."""
    return {name: project_spliced(done, trace_of(name), results) for name, done in SPLICES.items()}


def saved(done: Splice, method: Method) -> float:
    return next(each.saved for each in done.projected if each.method == method)


def points(done: Splice, method: Method) -> float:
    """Return how far a projection is from what was measured, in points."""
    assert done.times is not None
    return 100 * (saved(done, method) - done.times.saved)


# --- the records ------------------------------------------------------------------------------------------------------


def test_every_build_of_both_recommenders_was_spliced_and_is_right() -> None:
    assert list(SPLICES) == RECOMMENDERS
    assert all(done.correct and done.times for done in SPLICES.values())


def test_inference_saves_two_fifths_as_the_replay_had_said(beside: dict[str, Splice]) -> None:
    done = beside["dlrm-inference-eager"]
    replay = next(each for each in done.projected if each.method == "replay")
    assert done.times is not None
    assert done.times.saved > 0.4
    assert replay.valid
    assert abs(points(done, "replay")) < 2


def test_no_more_is_projected_than_was_put_in(results: list[Result]) -> None:
    done, trace = SPLICES["dlrm-dcnv2-training-fused"], trace_of("dlrm-dcnv2-training-fused")
    assert {each.problem for each in done.replacements} == {"LowRankCrossInteraction"}
    cross = sum(row.total_us for row in trace.rows if row.part == "cross") / len(trace.profiled_wall_us)
    matched = project_spliced(done, trace, results).projected[0]
    assert matched.method == "matched"
    assert 0 < matched.saved < cross / wall_us(trace)


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": "other"}, "another workload than the trace: other, not dlrm-inference-eager"),
        ({"precision": "fp16"}, "another precision than the trace: fp16, not bf16"),
        ({"configuration": {"batch": 1}}, "another configuration than the trace"),
    ],
)
def test_another_workload_is_refused(results: list[Result], changes: dict[str, Any], message: str) -> None:
    done = msgspec.structs.replace(SPLICES["dlrm-inference-eager"], **changes)
    with pytest.raises(MismatchError, match=message):
        project_spliced(done, trace_of("dlrm-inference-eager"), results)


def test_another_gpu_is_refused(results: list[Result]) -> None:
    done = SPLICES["dlrm-inference-eager"]
    done = msgspec.structs.replace(done, environment=msgspec.structs.replace(done.environment, device="Q1"))
    with pytest.raises(MismatchError, match="another GPU than the trace: Q1, not NVIDIA H200"):
        project_spliced(done, trace_of("dlrm-inference-eager"), results)


def test_results_of_another_text_are_refused_and_missing_ones_named(results: list[Result]) -> None:
    done, trace = SPLICES["dlrm-inference-eager"], trace_of("dlrm-inference-eager")
    others = [msgspec.structs.replace(each, submission_hash="0" * 64) for each in results]
    with pytest.raises(MismatchError, match="had another text when it was timed than in the splice"):
        project_spliced(done, trace, others)
    without = [each for each in results if each.problem != "DotInteraction"]
    with pytest.raises(UsageError, match="no results of solution:triton for DotInteraction"):
        project_spliced(done, trace, without)


def test_a_file_without_splices_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "splices.jsonl"
    path.write_text("\n")
    with pytest.raises(UsageError, match="holds no splice"):
        read_splices(path)


# --- the command ------------------------------------------------------------------------------------------------------


def test_one_workload_by_its_trace(cli: Call) -> None:
    called = cli("project", "dlrm-inference-eager", *MEASURED, "--json")
    assert [each["workload"] for each in called.json] == ["dlrm-inference-eager"]
    assert [each["method"] for each in called.json[0]["projected"]] == ["matched", "replay", "paper"]
    none = cli("project", "vit-b16-training", *MEASURED)
    assert (none.code, "holds no splice of vit-b16-training" in none.err) == (2, True)


def test_a_wrong_model_has_no_time_to_be_held_against(beside: dict[str, Splice]) -> None:
    wrong = msgspec.structs.replace(beside["dlrm-inference-eager"], correct=False, times=None)
    _, [row] = measured_rows([wrong])
    assert row[2:5] == ["-", "-", "output is wrong"]
    assert "points" not in "".join(row)


# --- the document -----------------------------------------------------------------------------------------------------


def document(root: Path) -> str:
    return (root / "docs" / "projection.md").read_text()


def test_its_tables_are_what_the_commands_print(cli: Call, root: Path) -> None:
    traces = sorted(H200.glob("*.trace.json.gz"))
    assert cli("trace", *traces, "--format", "md").out.strip() in document(root)
    assert cli("project", *MEASURED, "--format", "md").out.strip() in document(root)


def test_it_names_the_workload_that_has_no_trace(root: Path) -> None:
    missing = not (H200 / "decoder-7b-decode.trace.json.gz").exists()
    assert ("`decoder-7b-decode` has no trace yet" in document(root)) == missing


def test_its_prose_says_what_the_records_say(root: Path, beside: dict[str, Splice], results: list[Result]) -> None:
    text = " ".join(document(root).split())
    eager, fused = (beside[f"dlrm-inference-{build}"] for build in ("eager", "fused"))
    assert eager.times is not None
    low = eager.times.saved_low
    assert low <= saved(eager, "replay") <= eager.times.saved_high
    assert f"valid on this trace and {-points(eager, 'replay'):.1f} points from the measured value" in text
    assert f"match is {-points(eager, 'matched'):.2f} points from it" in text
    assert f"lower end of {low:.1%} by {100 * (low - saved(eager, 'matched')):.1f} points" in text
    assert f"paper's formula is {-points(eager, 'paper'):.1f} points off" in text
    assert f"match is {-points(fused, 'matched'):.1f} points too low" in text
    trace = trace_of("dlrm-inference-fused")
    steps, wall = len(trace.profiled_wall_us), wall_us(trace)
    cat = sum(row.total_us for row in trace.rows if (row.part, row.operator) == ("embedding", "aten::cat")) / steps
    table_batched = next(each for each in results if each.problem == "TableBatchedEmbeddingBagSum").measurement
    assert table_batched is not None
    speedup = next(each.speedup for each in table_batched.comparisons if each.baseline == "fbgemm")
    assert speedup is not None
    assert fused.times is not None
    without = saved(fused, "matched") + cat / speedup / wall
    assert f"a concatenation of {cat:.0f} us follows the lookup" in text
    assert f"to become {speedup:.2f} times as fast" in text
    assert f"it would say {without:.1%}, which is {100 * (fused.times.saved - without):.1f} points off" in text
    for build, middle in (("eager", " saved for "), ("fused", " for ")):
        name = f"dlrm-dcnv2-training-{build}"
        matched, trace = saved(beside[name], "matched"), trace_of(name)
        cross = sum(row.total_us for row in trace.rows if row.part == "cross") / len(trace.profiled_wall_us)
        assert f"{matched - cross / wall_us(trace):.1%}{middle}{matched:.1%}" in text


@pytest.mark.slow
def test_the_same_records_give_the_same_figure_which_is_that_of_the_document(
    cli: Call, root: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in drawn:
        assert cli("project", *MEASURED, "--figure", path).code == 0
    assert drawn[0].read_bytes() == drawn[1].read_bytes()
    kept = (root / "docs" / "projection.svg").read_text()
    assert "](projection.svg)" in document(root)
    if f"Matplotlib v{mpl.__version__}," in kept:
        assert kept == drawn[0].read_text()
    again = cli("project", *MEASURED, "--figure", drawn[0])
    assert (again.code, "exists already" in again.err) == (2, True)


def test_a_figure_that_cannot_be_written_is_refused(beside: dict[str, Splice], tmp_path: Path) -> None:
    summaries = [summarise(trace_of("dlrm-inference-eager"))]
    with pytest.raises(UsageError, match=r"a\.doc: Format 'doc' is not supported"):
        draw_figure(summaries, list(beside.values()), tmp_path / "a.doc")


def test_what_the_page_says_of_inference_once_more_is_in_the_records(root: Path) -> None:
    results, text = read_results(H200 / "results.jsonl"), document(root)
    for done in read_splices(H200 / "splice_inference.jsonl"):
        assert done.correct
        assert done.times is not None
        again = project_spliced(done, trace_of(done.workload), results)
        assert f"{done.times.saved:.1%} less" in text
        assert f"{saved(again, 'matched'):.1%}" in text
