from __future__ import annotations

from collections.abc import Callable

import pytest

from dlrm_bench.records import BaselineSummary, Comparison, Result, Summary
from dlrm_bench.report.summary import BEST, best_of, compared, summarise

MakeComparison = Callable[..., Comparison]
MakeResult = Callable[..., Result]
UNSUPPORTED = Comparison("fbgemm", "unsupported", "no CPU kernel")


@pytest.fixture
def results(make_result: MakeResult, make_comparison: MakeComparison) -> list[Result]:
    """One submission on five problems: two wins, a tie and a loss against eager; fbgemm runs on two."""
    c = make_comparison
    return [
        make_result(1, comparisons=[c("eager", 4.0, "win"), c("fbgemm", 2.0, "win")]),
        make_result(2, comparisons=[c("eager", 2.0, "win"), c("fbgemm", 0.5, "loss")]),
        make_result(3, comparisons=[c("eager", 1.0, "tie"), UNSUPPORTED]),
        make_result(4, comparisons=[c("eager", 0.5, "loss"), UNSUPPORTED]),
        make_result(5, status="incorrect"),
    ]


def against(results: list[Result], baseline: str) -> BaselineSummary:
    (summary,) = summarise(results)
    (found,) = [each for each in summary.against if each.baseline == baseline]
    return found


# --- one result ----------------------------------------------------------------------------------


def test_the_best_baseline_is_the_fastest_that_was_timed(make_comparison: MakeComparison) -> None:
    slow, fast = make_comparison("eager", 4.0, "win"), make_comparison("inductor", 2.0, "win")
    assert best_of([slow, UNSUPPORTED, fast]) is fast
    assert best_of([UNSUPPORTED]) is None
    assert best_of([]) is None


@pytest.mark.parametrize(("baseline", "speedup"), [("eager", 2.0), ("fbgemm", 0.5), (BEST, 0.5)])
def test_a_result_is_compared_with_the_baseline_asked_for(results: list[Result], baseline: str, speedup: float) -> None:
    found = compared(results[1], baseline)
    assert found is not None
    assert found.speedup == speedup


@pytest.mark.parametrize(("problem", "baseline"), [(3, "fbgemm"), (3, "inductor"), (5, "eager"), (5, BEST)])
def test_nothing_is_compared_that_was_not_timed(results: list[Result], problem: int, baseline: str) -> None:
    assert compared(results[problem - 1], baseline) is None


# --- a submission over its problems --------------------------------------------------------------


def test_a_summary_counts_results_by_status(results: list[Result]) -> None:
    (summary,) = summarise(results)
    assert (summary.submission, summary.evaluated, summary.correct) == ("kernel", 5, 4)
    assert summary.statuses == {"correct": 4, "incorrect": 1}


def test_every_baseline_is_summed_up_and_the_best_of_them_last(results: list[Result]) -> None:
    (summary,) = summarise(results)
    assert [each.baseline for each in summary.against] == ["eager", "fbgemm", BEST]


def test_figures_against_a_baseline_that_runs_everywhere(results: list[Result]) -> None:
    assert against(results, "eager") == BaselineSummary(
        baseline="eager",
        compared=4,
        wins=2,
        losses=1,
        win_rate=2 / 5,
        median_speedup_of_wins=3.0,
        geometric_mean=pytest.approx(4 ** (1 / 4)),
        fast_p={"1": 2 / 5, "1.5": 2 / 5, "2": 1 / 5},
    )


def test_a_problem_without_the_baseline_counts_as_evaluated_but_not_as_compared(results: list[Result]) -> None:
    assert against(results, "fbgemm") == BaselineSummary(
        baseline="fbgemm",
        compared=2,
        wins=1,
        losses=1,
        win_rate=1 / 5,
        median_speedup_of_wins=2.0,
        geometric_mean=pytest.approx(1.0),
        fast_p={"1": 1 / 5, "1.5": 1 / 5, "2": 0.0},
    )


def test_the_best_baseline_is_chosen_problem_by_problem(results: list[Result]) -> None:
    best = against(results, BEST)
    assert (best.compared, best.wins, best.losses) == (4, 1, 2)
    assert best.geometric_mean == pytest.approx((2.0 * 0.5 * 1.0 * 0.5) ** (1 / 4))


def test_without_a_win_there_is_no_median_of_wins(make_result: MakeResult, make_comparison: MakeComparison) -> None:
    figures = against([make_result(comparisons=[make_comparison("eager", 1.2, "tie")])], "eager")
    assert (figures.wins, figures.losses, figures.median_speedup_of_wins) == (0, 0, None)
    assert figures.fast_p["1"] == 1.0


def test_a_baseline_that_never_ran_has_no_figures(make_result: MakeResult) -> None:
    figures = against([make_result(comparisons=[UNSUPPORTED])], "fbgemm")
    assert (figures.compared, figures.win_rate, figures.geometric_mean) == (0, 0.0, None)


def test_where_nothing_was_timed_nothing_is_compared(make_result: MakeResult) -> None:
    assert summarise([make_result(1), make_result(2, status="crash")]) == [
        Summary("kernel", 2, 1, {"correct": 1, "crash": 1}, [])
    ]


def test_submissions_are_summed_up_apart_in_the_order_of_their_first_result(make_result: MakeResult) -> None:
    results = [make_result(1, "b"), make_result(1, "a"), make_result(2, "b", status="timeout")]
    assert [(each.submission, each.evaluated, each.correct) for each in summarise(results)] == [
        ("b", 2, 1),
        ("a", 1, 1),
    ]


def test_no_results_have_no_summary() -> None:
    assert summarise([]) == []
