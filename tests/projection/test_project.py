"""Projections: the paper's formula, matching, bounds, intervals, and results that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from dlrm_bench.errors import MismatchError, UsageError
from dlrm_bench.problems import load_problems
from dlrm_bench.projection.matched import group_calls, group_rows
from dlrm_bench.projection.paper import paper_saving, paper_saving_of
from dlrm_bench.projection.project import project
from dlrm_bench.records import (
    Comparison,
    Launches,
    Linking,
    Measurement,
    Projection,
    Provenance,
    Result,
    Saving,
    Trace,
    TraceRow,
)

BAG = "void at::native::anonymous::EmbeddingBag_updateOutputKernel_sum_mean<float>"
GEMM = "nvjet_tst_128x64"
ADD = "void at::native::vectorized_elementwise_kernel<4>"
STEPS = 10


def trace_row(kernel: str, operation: str, owner: str, operator: str, us: float, **changes: Any) -> TraceRow:
    values: dict[str, Any] = {
        "kernel": kernel,
        "operator": operator,
        "outer": operator,
        "part": None,
        "shapes": [],
        "dtype": "float",
        "operation": operation,
        "owner": owner,
        "launches": STEPS,
        "step_us": [us] * STEPS,
        "exclusive_us": us * STEPS,
        "shared_us": us * STEPS,
    }
    return TraceRow(**{**values, **changes})


@pytest.fixture
def trace() -> Trace:
    """A step of 1000 us: 400 in embedding bags, 300 in matrix products, 100 elementwise; Test GPU, fp32."""
    rows = [
        trace_row(BAG, "embedding_forward", "aten", "aten::_embedding_bag", 400.0),
        trace_row(GEMM, "gemm", "cublas", "aten::addmm", 300.0),
        trace_row(ADD, "elementwise", "aten", "aten::add", 100.0),
    ]
    return Trace(
        schema=1,
        workload="dlrm",
        mode="inference",
        precision="fp32",
        configuration={},
        provenance=Provenance("Test GPU", "570.1", "13.0", "2.13.0", "0.1.0"),
        wall_us=[1000.0] * STEPS,
        profiled_wall_us=[1000.0] * STEPS,
        busy_us=[800.0] * STEPS,
        rules=1,
        linking=Linking(1.0, 0.0, 0.0),
        untimed=0,
        outside=0,
        with_stack=False,
        rows=rows,
    )


MakeResult = Callable[..., Result]
MakeComparison = Callable[..., Comparison]


@pytest.fixture
def won(make_result: MakeResult, make_comparison: MakeComparison) -> Callable[..., Result]:
    """Make the result of problem 1 for a kernel of 10 us that is so much faster than eager and the library."""

    def make(eager: float = 4.0, fbgemm: float = 1.6, **changes: Any) -> Result:
        outcome = "win" if eager > 1 else "loss"
        comparisons = [make_comparison("eager", eager, outcome), make_comparison("fbgemm", fbgemm, outcome)]
        return msgspec.structs.replace(make_result(1, "kernel", comparisons=comparisons), **changes)

    return make


def saving(projection: Projection, method: str) -> Saving:
    (found,) = (each for each in projection.savings if each.method == method)
    return found


# --- the paper's formula --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("addressable", "saved"), [(0.582, "8.63%"), (0.089, "1.32%"), (0.168, "2.49%")], ids=["headline", "low", "high"]
)
def test_the_papers_figures(addressable: float, saved: str) -> None:
    assert f"{paper_saving(addressable, 5 / 12, 1.552).saved:.2%}" == saved


def test_time_saved_and_speedup_are_both_said() -> None:
    found = paper_saving(0.582, 5 / 12, 1.552)
    assert round(found.speedup, 3) == 1.094
    assert found.speedup == pytest.approx(1 / (1 - found.saved))


@pytest.mark.parametrize("numbers", [(1.1, 0.5, 2), (-0.1, 0.5, 2), (0.5, 2, 2), (0.5, 0.5, 0), (0.5, 0.5, -1),
                                     (float("nan"), 0.5, 2), (0.5, 0.5, float("inf"))])  # fmt: skip
def test_numbers_out_of_range_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="must"):
        paper_saving(*numbers)


def test_the_formula_takes_rate_and_median_from_results(won: Callable[..., Result], make_result: MakeResult) -> None:
    results = [won(), make_result(2, "kernel", "incorrect"), won(eager=0.5, problem="other"), won(eager=2.0)]
    found = paper_saving_of(0.5, results)
    assert found.saved == pytest.approx(0.5 * 0.5 * (1 - 1 / 3))
    assert found.saved_low is not None and found.saved_high is not None  # noqa: PT018
    assert 0 <= found.saved_low < found.saved < found.saved_high <= 0.5


# --- matched --------------------------------------------------------------------------------------


def test_the_kernels_of_an_operator_are_matched_with_the_baseline_that_the_trace_ran(
    trace: Trace, won: Callable[..., Result]
) -> None:
    projection = project(trace, [won()])
    (match,) = projection.matches
    assert (match.problem, match.baseline, match.us, match.share) == ("EmbeddingBagSum", "eager", 400.0, 0.4)
    assert (match.outcome, match.speedup, match.by_time) == ("win", 4.0, False)
    assert saving(projection, "matched").saved == pytest.approx(0.4 * 0.75)
    assert saving(projection, "matched").speedup == pytest.approx(1 / 0.7)
    assert projection.coverage == pytest.approx(0.8)
    assert projection.addressable == pytest.approx(0.5)


def test_fbgemms_kernels_are_held_against_fbgemm(trace: Trace, won: Callable[..., Result]) -> None:
    row = trace_row("split_embedding_codegen_forward", "embedding_forward", "fbgemm", "fbgemm::lookup", 400.0)
    fused = msgspec.structs.replace(trace, rows=[row, *trace.rows[1:]])
    result = won(problem="TableBatchedEmbeddingBagSum", problem_id=2)
    assert saving(project(fused, [result]), "matched").saved == pytest.approx(0.4 * (1 - 1 / 1.6))


def test_a_workload_of_the_problems_size_takes_the_submissions_own_time(
    trace: Trace, won: Callable[..., Result]
) -> None:
    constants = load_problems().find("TableBatchedEmbeddingBagSum").constants("small")
    names = {"ROWS": "rows", "MEAN_LENGTHS": "mean_lengths", "DIM": "dim", "BATCH": "batch"}
    row = msgspec.structs.replace(trace.rows[0], part="embedding")
    same = msgspec.structs.replace(
        trace,
        rows=[row, *trace.rows[1:]],
        configuration={theirs: constants[ours] for ours, theirs in names.items()},
    )
    result = won(problem="TableBatchedEmbeddingBagSum", problem_id=2)
    projection = project(same, [result])
    assert projection.matches[0].by_time
    assert saving(projection, "matched").saved == pytest.approx((400 - 10) / 1000)
    other = msgspec.structs.replace(same, configuration={**same.configuration, "batch": 1})
    assert not project(other, [result]).matches[0].by_time
    assert saving(project(other, [result]), "matched").saved == pytest.approx(0.4 * 0.75)


def test_a_loss_stays_a_loss_unless_there_is_a_fallback(trace: Trace, won: Callable[..., Result]) -> None:
    slow = won(eager=0.5)
    as_is, spared = project(trace, [slow]), project(trace, [slow], fallback=True)
    assert saving(as_is, "matched").saved == pytest.approx(-0.4)
    assert saving(as_is, "matched").speedup == pytest.approx(1 / 1.4)
    assert saving(spared, "matched").saved == 0
    assert (as_is.matches[0].outcome, spared.matches[0].speedup) == ("loss", 1.0)


@pytest.mark.parametrize("how", ["incorrect", "missing", "not compared"])
def test_kernels_without_a_usable_result_stay_as_they_are(
    trace: Trace, won: Callable[..., Result], make_result: MakeResult, make_comparison: MakeComparison, how: str
) -> None:
    results = {
        "incorrect": make_result(1, "kernel", "incorrect"),
        "missing": won(problem="FactorizationMachine", problem_id=9),
        "not compared": make_result(1, "kernel", comparisons=[make_comparison("fbgemm", 2.0, "win")]),
    }
    said = {"incorrect": "incorrect", "missing": "no result", "not compared": "not compared with eager"}
    projection = project(trace, [results[how]])
    assert saving(projection, "matched").saved == 0
    assert (projection.coverage, projection.matches[0].outcome) == (0.0, said[how])
    assert any("results stand for 0% of addressable" in each for each in projection.warnings)


def test_a_kernel_beside_another_saves_only_what_it_has_for_itself(trace: Trace, won: Callable[..., Result]) -> None:
    row = msgspec.structs.replace(trace.rows[0], exclusive_us=100.0 * STEPS, shared_us=250.0 * STEPS)
    beside = msgspec.structs.replace(trace, rows=[row, *trace.rows[1:]])
    projection = project(beside, [won()])
    assert saving(projection, "matched").saved == pytest.approx(0.1 * 0.75)
    assert any("75% of the matched time runs beside other kernels" in each for each in projection.warnings)


# --- intervals ------------------------------------------------------------------------------------


def spread(result: Result, scatter: float) -> Result:
    """Give a result and its comparisons block times that scatter."""
    generator = np.random.default_rng(1)
    assert result.measurement is not None

    def blocks(median: float) -> list[float]:
        return list(median * (1 + scatter * generator.standard_normal(60)))

    comparisons = [
        msgspec.structs.replace(each, block_us=blocks(each.median_us or 0)) for each in result.measurement.comparisons
    ]
    measured: Measurement = msgspec.structs.replace(
        result.measurement, block_us=blocks(result.measurement.median_us), comparisons=comparisons
    )
    return msgspec.structs.replace(result, measurement=measured)


def width(found: Saving) -> float:
    assert found.saved_low is not None
    assert found.saved_high is not None
    assert found.saved_low <= found.saved <= found.saved_high
    return found.saved_high - found.saved_low


def test_the_interval_grows_with_the_scatter_of_results_and_of_steps(trace: Trace, won: Callable[..., Result]) -> None:
    steady = saving(project(trace, [won()]), "matched")
    assert width(steady) == 0
    results = [width(saving(project(trace, [spread(won(), each)]), "matched")) for each in (0.01, 0.05)]
    assert 0 < results[0] < results[1] < 0.05
    walls = [float(each) for each in 1000 + 100 * np.linspace(-1, 1, STEPS)]
    shaky = msgspec.structs.replace(trace, wall_us=walls)
    assert width(saving(project(shaky, [won()]), "matched")) > 0.01


def test_the_same_records_give_the_same_interval_again(trace: Trace, won: Callable[..., Result]) -> None:
    result = spread(won(), 0.05)
    assert project(trace, [result]) == project(trace, [result])
    assert project(trace, [result]) != project(trace, [result], seed=1)


# --- replay ---------------------------------------------------------------------------------------


@pytest.fixture
def launched(trace: Trace) -> Trace:
    """The same step with its launches, one a kernel, and the host waiting at the end."""
    return msgspec.structs.replace(trace, launches=in_order([0, 1, 2], [400.0, 300.0, 100.0], wall=1000.0))


def in_order(rows: list[int], durations: list[float], wall: float) -> Launches:
    """Lay launches out on one stream, 10 us of the host apart, the last wait ending with the step."""
    starts = [wall - sum(durations[place:]) - 2 for place in range(len(rows))]
    return Launches(
        row=rows,
        stream=[7] * len(rows),
        host_us=[10.0 * place for place in range(len(rows))],
        start_us=starts,
        duration_us=durations,
        waits_us=[10.0 * len(rows)],
        waits_end_us=[wall],
        wall_us=wall,
    )


def test_the_replay_agrees_with_the_match_where_the_step_waits_for_the_gpu(
    launched: Trace, won: Callable[..., Result]
) -> None:
    projection = project(launched, [spread(won(), 0.05)])
    assert projection.identity is not None
    assert (projection.identity.replayed_us, projection.identity.valid) == (1000.0, True)
    found = saving(projection, "replay")
    assert found.valid
    assert found.saved == pytest.approx(0.3)
    assert 0 < width(found) < 0.05


def test_a_replay_that_does_not_give_the_step_back_is_not_valid(launched: Trace, won: Callable[..., Result]) -> None:
    shorter = msgspec.structs.replace(launched, wall_us=[900.0] * STEPS)
    projection = project(shorter, [won()])
    assert projection.identity is not None
    assert projection.identity.error == pytest.approx(1 / 9)
    found = saving(projection, "replay")
    assert not found.valid
    assert "11.1% off: not valid for this trace" in found.note


def test_without_launches_there_is_no_replay(trace: Trace, won: Callable[..., Result]) -> None:
    projection = project(trace, [won()])
    assert projection.identity is None
    assert projection.saving("replay") is None


def test_what_a_part_launches_becomes_one_call_each_time_it_runs(trace: Trace, won: Callable[..., Result]) -> None:
    bag, gemm, add = trace.rows
    rows = [msgspec.structs.replace(bag, part="embedding"), gemm, msgspec.structs.replace(add, part="embedding")]
    made = msgspec.structs.replace(trace, rows=rows, launches=in_order([0, 2, 0, 1, 0, 0], [10.0] * 6, wall=100.0))
    result = won(problem="TableBatchedEmbeddingBagSum", problem_id=2)
    (group,) = group_rows(made, [result], fallback=False)
    assert group_calls(made, group) == [[0, 1, 2], [4, 5]]
    (unused,) = group_rows(made, [], fallback=False)
    assert group_calls(made, unused) == []


# --- bounds ---------------------------------------------------------------------------------------


def test_bounds_order_as_they_must(trace: Trace, won: Callable[..., Result]) -> None:
    projection = project(trace, [won()])
    assert saving(projection, "infinite").saved == pytest.approx(0.5)
    # Eager takes 40 us, the floor is at 8 and fbgemm at 16.
    assert saving(projection, "roofline").saved == pytest.approx(0.4 * (1 - 8 / 40))
    assert saving(projection, "best_library").saved == pytest.approx(0.4 * (1 - 16 / 40))
    assert "1 of 1 groups" in saving(projection, "roofline").note


def test_policies_change_what_is_addressable_and_not_what_is_matched(trace: Trace, won: Callable[..., Result]) -> None:
    found = {policy: project(trace, [won()], policy=policy) for policy in ("paper", "covered", "all_compute")}
    assert [round(each.addressable, 9) for each in found.values()] == [0.5, 0.4, 0.8]
    assert [round(each.coverage, 9) for each in found.values()] == [0.8, 1.0, 0.5]
    assert len({saving(each, "matched").saved for each in found.values()}) == 1


# --- results that do not fit ----------------------------------------------------------------------


def test_results_of_another_gpu_are_refused_and_labelled_when_forced(trace: Trace, won: Callable[..., Result]) -> None:
    elsewhere = msgspec.structs.replace(trace, provenance=msgspec.structs.replace(trace.provenance, gpu="NVIDIA H200"))
    with pytest.raises(MismatchError, match="results from Test GPU, trace from NVIDIA H200; --force"):
        project(elsewhere, [won()])
    assert project(elsewhere, [won()], force=True).forced == ["results from Test GPU, trace from NVIDIA H200"]


def test_results_in_another_precision_are_refused_and_labelled_when_forced(
    trace: Trace, won: Callable[..., Result]
) -> None:
    with pytest.raises(MismatchError, match="results in bf16, trace in fp32"):
        project(trace, [won(precision="bf16")])
    assert project(trace, [won(precision="bf16")], force=True).forced == ["results in bf16, trace in fp32"]
    unsaid = msgspec.structs.replace(trace, precision=None)
    assert any("does not say its precision" in each for each in project(unsaid, [won()]).warnings)


def test_the_submission_is_chosen_or_asked_for(trace: Trace, won: Callable[..., Result]) -> None:
    mine, yours, library = won(), won(submission="other"), won(submission="baseline:fbgemm")
    assert project(trace, [mine, library]).submission == "kernel"
    assert project(trace, [library]).submission == "baseline:fbgemm"
    assert project(trace, [mine, yours], submission="other").submission == "other"
    with pytest.raises(UsageError, match="of kernel, other; choose one with --submission"):
        project(trace, [mine, yours])
    with pytest.raises(UsageError, match="no results of 'nobody'; there are kernel"):
        project(trace, [mine], submission="nobody")
    with pytest.raises(UsageError, match="there are no results"):
        project(trace, [])


def test_small_sizes_are_said(trace: Trace, won: Callable[..., Result]) -> None:
    assert "results of the small size: EmbeddingBagSum" in project(trace, [won()]).warnings
    assert not any("small size" in each for each in project(trace, [won(size="full")]).warnings)
