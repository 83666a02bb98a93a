"""What a model's samples are worth, against what can be worked out by hand."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlrm_bench.records import Comparison, Projection, Result, Saving
from dlrm_bench.report.score import best_results, pass_at_k, score, score_rows

Make = Callable[..., Any]


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_counts_the_draws_with_a_right_sample(case: tuple[int, int, int]) -> None:
    samples, right, k = case
    draws = list(itertools.combinations([True] * right + [False] * (samples - right), k))
    assert pass_at_k(samples, right, k) == pytest.approx(statistics.fmean(any(draw) for draw in draws))


@pytest.fixture
def timed(make_result: Make, make_comparison: Make) -> Callable[..., Result]:
    """Make a right result that is so many times as fast as eager, and half as fast against a better baseline."""

    def make(problem: int, sample: int, speedup: float) -> Result:
        outcome = "win" if speedup > 1 else "loss"
        comparisons: list[Comparison] = [
            make_comparison("eager", 2 * speedup, "win"),
            make_comparison("fbgemm", speedup, outcome),
        ]
        return make_result(problem, f"sample_{sample}", comparisons=comparisons)

    return make


@pytest.fixture
def results(make_result: Make, timed: Callable[..., Result]) -> list[Result]:
    return [
        timed(1, 0, 1.5),
        timed(1, 1, 3.0),
        timed(7, 0, 0.8),
        make_result(7, "sample_1", status="incorrect"),
        make_result(9, "sample_0", status="compile_error"),
        make_result(9, "sample_1", status="timeout"),
        timed(10, 0, 1.1),
        make_result(10, "sample_1", status="crash"),
    ]


def test_rates_are_of_one_sample_averaged_over_problems(results: list[Result]) -> None:
    found = score("tiny", results)
    assert (found.problems, found.samples, found.fewest_samples) == (4, 8, 2)
    assert found.correct.value == pytest.approx((1 + 0.5 + 0 + 0.5) / 4)
    assert found.win_rate.value == pytest.approx((1 + 0 + 0 + 0.5) / 4)
    assert found.median_speedup_of_wins is not None
    assert found.median_speedup_of_wins.value == 1.5
    assert {p: each.value for p, each in found.fast_p.items()} == pytest.approx({"0": 0.5, "1": 0.375, "2": 0.125})
    assert {k: each.value for k, each in found.pass_at_k.items()} == pytest.approx({"1": 0.5, "2": 0.75})


def test_the_best_sample_of_each_problem_counts_for_the_model(results: list[Result]) -> None:
    found = score("tiny", results)
    assert (found.problems_correct, found.problems_won) == (3, 2)
    assert found.median_speedup_of_problems_won == pytest.approx((3.0 + 1.1) / 2)
    best = best_results("tiny", results)
    assert [(each.problem_id, each.submission) for each in best] == [
        (1, "tiny"),
        (7, "tiny"),
        (9, "tiny"),
        (10, "tiny"),
    ]
    assert [each.correct for each in best] == [True, True, False, True]


def test_a_problem_with_more_samples_weighs_no_more(make_result: Make) -> None:
    many = [make_result(1, f"sample_{number}") for number in range(9)]
    found = score("tiny", [*many, make_result(7, "sample_0", status="incorrect")])
    assert found.correct.value == 0.5
    assert list(found.pass_at_k) == ["1"]


def test_intervals_come_from_problems_drawn_again(make_result: Make) -> None:
    def of(right: int, problems: int) -> Any:
        ids = range(1, problems + 1)
        return score("tiny", [make_result(i, status="correct" if i <= right else "crash") for i in ids]).correct

    wide, none, whole = of(5, 12), of(0, 12), of(12, 12)
    # About the binomial's own quantiles for 5 of 12.
    assert (wide.low, wide.high) == (pytest.approx(2 / 12, abs=0.01), pytest.approx(8 / 12, abs=0.1))
    assert (none.low, none.high, whole.low, whole.high) == (0, 0, 1, 1)
    assert of(5, 12) == wide


def test_the_interval_of_a_median_holds_it_and_leaves_out_draws_without_a_win(timed: Callable[..., Result]) -> None:
    found = score("tiny", [timed(1, 0, 2.0), timed(7, 0, 4.0), timed(9, 0, 0.5)]).median_speedup_of_wins
    assert found is not None
    assert (found.low, found.value, found.high) == (2.0, 3.0, 4.0)
    assert score("tiny", [timed(9, 0, 0.5)]).median_speedup_of_wins is None


def test_a_row_has_a_cell_for_each_column_whatever_a_model_lacks(results: list[Result], make_result: Make) -> None:
    saving = Saving("matched", 0.25, 4 / 3, 0.2, 0.3)
    projection = Projection(
        workload="dlrm",
        gpu="Test GPU",
        submission="tiny",
        policy="default",
        fallback=False,
        wall_us=1000.0,
        wall_is_profiled=False,
        addressable=0.6,
        coverage=0.9,
        win_rate=0.5,
        median_speedup_of_wins=2.0,
        savings=[saving],
        matches=[],
        identity=None,
    )
    models = [score("tiny", results, projection), score("small", [make_result(1, status="crash")])]
    header, rows = score_rows(models)
    assert [len(row) for row in rows] == [len(header)] * 2
    assert dict(zip(header, rows[0], strict=True))["saved, matched"] == "25.0% [20.0%, 30.0%]"
    assert dict(zip(header, rows[0], strict=True))["problems won"] == "2 of 4"
    assert dict(zip(header, rows[1], strict=True))["pass@2"] == "-"
    assert dict(zip(header, rows[1], strict=True))["median win"] == "-"
    assert not any(math.isnan(each.correct.low) for each in models)


def test_what_was_not_timed_has_no_wins_to_speak_of(make_result: Make) -> None:
    found = score("judged", [make_result(1), make_result(7)])
    assert found.correct.value == 1.0
    assert (found.win_rate, found.fast_p, found.problems_won) == (None, {}, None)
    header, [row] = score_rows([found])
    assert [row[header.index(name)] for name in ("win rate", "fast_1", "problems won")] == ["-", "-", "-"]
