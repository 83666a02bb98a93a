"""From a profile to a trace: steps, operators, classes, times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlrm_bench.errors import TraceError
from dlrm_bench.records import Trace, TraceRow
from dlrm_bench.traces.intervals import occupancy
from dlrm_bench.traces.load import load_trace
from dlrm_bench.traces.summary import summarise

Make = Callable[..., Path]


def row_of(trace: Trace, operator: str | None) -> TraceRow:
    (found,) = (row for row in trace.rows if row.operator == operator)
    return found


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_a_step_is_read_alike_in_every_spelling(recommender: Make, old: bool, external: bool) -> None:
    trace = load_trace(recommender(old=old, external=external))
    assert trace.profiled_wall_us == [1000.0] * 3
    assert trace.busy_us == [800.0] * 3
    assert [(row.operator, row.operation, row.owner, row.launches, row.step_us) for row in trace.rows] == [
        ("aten::_embedding_bag", "embedding_forward", "aten", 6, [400.0] * 3),
        ("aten::addmm", "gemm", "cublas", 3, [300.0] * 3),
        ("aten::add", "elementwise", "aten", 3, [100.0] * 3),
    ]
    assert trace.rows[0].shapes == [[1000, 64], [4000], [128]]
    assert trace.precision == "bf16"
    assert (trace.untimed, trace.outside) == (0, 0)
    share = trace.linking.external_id if external else trace.linking.correlation
    assert share == 1.0


def test_a_trace_says_where_it_comes_from_and_nothing_else(recommender: Make) -> None:
    provenance = load_trace(recommender()).provenance
    assert (provenance.gpu, provenance.driver, provenance.cuda, provenance.torch) == (
        "NVIDIA H200",
        "13.1",
        "13.0",
        None,
    )


def test_the_operator_is_the_innermost_and_the_outer_one_the_outermost(kineto: Any, tmp_path: Path) -> None:
    builder = kineto(external=False)
    builder.annotation("interaction", 90, 100)
    builder.launch(builder.GEMM, 100, 110, 5, "aten::bmm", outer="aten::matmul")
    builder.launch(builder.ADD, 300, 310, 5, "aten::add", outer="aten::sum")
    builder.launch(builder.ADD, 400, 410, 5, None)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    found = {(row.operator, row.outer, row.part) for row in trace.rows}
    assert found == {("aten::bmm", "aten::matmul", "interaction"), ("aten::add", "aten::sum", None), (None, None, None)}


def test_operators_of_another_thread_do_not_count(kineto: Any, tmp_path: Path) -> None:
    builder = kineto(external=False)
    builder.span("cpu_op", "aten::wait", 0, 1000, tid=1)
    builder.launch(builder.ADD, 100, 110, 5, None, tid=2)
    assert load_trace(builder.write(tmp_path / "a.json")).rows[0].operator is None


def test_an_operator_that_ended_when_the_next_began_is_not_around_it(kineto: Any, tmp_path: Path) -> None:
    builder = kineto(external=False)
    builder.span("cpu_op", "aten::first", 90, 9)
    builder.launch(builder.ADD, 100, 110, 5, "aten::second")
    row = load_trace(builder.write(tmp_path / "a.json")).rows[0]
    assert (row.operator, row.outer) == ("aten::second", "aten::second")


def test_kernels_without_correlation_count_without_an_operator(kineto: Any, tmp_path: Path) -> None:
    builder = kineto(external=False)
    builder.launch(builder.ADD, 100, 110, 30, correlation=False)
    builder.launch(builder.ADD, 200, 210, 10)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert trace.linking.unlinked == 0.75
    assert row_of(trace, None).total_us == 30.0
    assert any("75% of kernel time has no operator" in each for each in summarise(trace).warnings)


@pytest.mark.parametrize("duration", [0, -5, 1e300, None])
def test_kernels_of_an_impossible_duration_are_left_out_and_counted(
    kineto: Any, tmp_path: Path, duration: float | None
) -> None:
    builder = kineto()
    builder.launch(builder.ADD, 100, 110, 10)
    builder.launch(builder.GEMM, 200, 210, duration)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert [row.total_us for row in trace.rows] == [10.0]
    assert trace.untimed == 1
    assert "1 kernels without a duration above zero were left out" in summarise(trace).warnings


def test_a_file_without_any_possible_duration_is_refused(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch(builder.ADD, 100, 110, 0)
    with pytest.raises(TraceError, match="none of its 1 kernels has a duration above zero"):
        load_trace(builder.write(tmp_path / "a.json"))


def test_kernels_outside_the_steps_are_left_out_and_counted(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.step(1, 0, 100)
    builder.step(2, 100, 100)
    for ts in (50, 150, 250):
        builder.launch(builder.ADD, ts, ts + 5, 10)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert trace.rows[0].step_us == [10.0]
    assert trace.outside == 1


def test_steps_without_kernels_do_not_count(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    for number in range(1, 5):
        builder.step(number, 100 * number, 100)
    builder.launch(builder.ADD, 250, 260, 10)
    assert load_trace(builder.write(tmp_path / "one.json")).rows[0].step_us == [10.0]
    builder.launch(builder.ADD, 350, 360, 20)
    assert load_trace(builder.write(tmp_path / "two.json")).rows[0].step_us == [20.0]


def test_kernels_that_no_step_launched_are_refused(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.step(1, 0, 100)
    builder.launch(builder.ADD, 500, 510, 10)
    with pytest.raises(TraceError, match="none of its 1 kernels was launched within its steps"):
        load_trace(builder.write(tmp_path / "a.json"))


def test_without_marks_the_whole_profile_is_one_step(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch(builder.ADD, 100, 110, 10)
    builder.launch(builder.ADD, 200, 210, 10)
    assert load_trace(builder.write(tmp_path / "a.json")).profiled_wall_us == [120.0]


def test_of_several_gpus_the_busiest_counts(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.header["deviceProperties"].append({"id": 1, "name": "Other GPU"})
    builder.launch(builder.ADD, 100, 110, 10)
    builder.launch(builder.GEMM, 100, 110, 50, device=1)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert (trace.provenance.gpu, len(trace.rows), trace.outside) == ("Other GPU", 1, 1)


def test_copies_count_as_memory(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch("Memcpy DtoD (Device -> Device)", 100, 110, 10, "aten::copy_")
    assert load_trace(builder.write(tmp_path / "a.json")).rows[0].operation == "memory_copy"


def test_tensor_lists_are_laid_out_one_member_after_another(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch(builder.ADD, 100, 110, 10, "aten::cat", [[[2, 3], [4, 3]], []])
    builder.launch(builder.ADD, 200, 210, 10, "aten::_foreach_add_", [[[number] for number in range(100)]])
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert row_of(trace, "aten::cat").shapes == [[2, 3], [4, 3], []]
    assert len(row_of(trace, "aten::_foreach_add_").shapes) == 8


def test_addressable_fractions_by_four_denominators(recommender: Make) -> None:
    trace = load_trace(recommender())
    summary = summarise(trace)
    assert {each.denominator: (each.us, round(each.fraction, 9)) for each in summary.addressable} == {
        "wall": (1000.0, 0.5),
        "busy": (800.0, 0.625),
        "kernels": (800.0, 0.625),
        "kernels_without_communication": (800.0, 0.625),
    }
    assert {each.denominator: each.fraction for each in summarise(trace, "all_compute").addressable}["wall"] == 0.8
    assert {each.denominator: each.fraction for each in summarise(trace, "covered").addressable}["wall"] == 0.4


def test_overlap_communication_and_the_unknown_band(kineto: Any, tmp_path: Path) -> None:
    builder = kineto()
    builder.launch(builder.ADD, 0, 100, 100)
    builder.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1, 150, 100, "nccl:all_reduce", stream=20)
    builder.launch("my_kernel", 2, 300, 50, None)
    trace = load_trace(builder.write(tmp_path / "a.json"))
    assert trace.busy_us == [200.0]
    add = row_of(trace, "aten::add")
    assert (add.total_us, add.exclusive_us, add.shared_us) == (100.0, 50.0, 75.0)
    found = {each.denominator: (each.fraction, each.high) for each in summarise(trace).addressable}
    assert found["busy"] == (75 / 200, 125 / 200)
    assert found["kernels"] == (100 / 250, 150 / 250)
    assert found["kernels_without_communication"] == (100 / 150, 150 / 150)
    assert any("20.0% of kernel time is of unknown kind" in each for each in summarise(trace).warnings)


def test_classes_add_up_to_the_whole(recommender: Make) -> None:
    classes = summarise(load_trace(recommender())).classes
    assert [each.operation for each in classes] == ["embedding_forward", "gemm", "elementwise"]
    assert sum(each.share for each in classes) == pytest.approx(1)
    assert (classes[0].launches, classes[0].us) == (2.0, 400.0)


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=12)


@given(spans)
def test_occupancy_agrees_with_counting_every_moment(drawn: list[tuple[int, int]]) -> None:
    start = np.array([first for first, _ in drawn])
    end = start + np.array([length for _, length in drawn])
    found = occupancy(start, end)
    open_at = (start[:, None] <= np.arange(80)) & (np.arange(80) < end[:, None])
    running = open_at.sum(axis=0)
    assert found.busy == (running > 0).sum()
    np.testing.assert_allclose(found.exclusive, (open_at & (running == 1)).sum(axis=1))
    np.testing.assert_allclose(found.shared, (open_at / np.maximum(running, 1)).sum(axis=1))
    assert found.shared.sum() == pytest.approx(found.busy)
