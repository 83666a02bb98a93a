from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.inputs import index_statistics, row_counts
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import IndexStatistics

NO_BAGS = IndexStatistics(0, 0.0, 0.0, 0, 0.0, 0, 0, 0.0)


@pytest.fixture
def one_table(problems: ProblemSet) -> Problem:
    return problems.find("EmbeddingBagSum")


@pytest.fixture
def names(one_table: Problem) -> Callable[..., Mapping[str, Any]]:
    """The functions of problem 1, under other constants."""
    return lambda **constants: _changed(one_table.namespace(), constants)


def _changed(names: dict[str, Any], constants: Mapping[str, Any]) -> Mapping[str, Any]:
    torch.manual_seed(0)
    names.update(constants)
    return names


def bags(indices: list[int], offsets: list[int]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(each, dtype=torch.int64) for name, each in (("indices", indices), ("offsets", offsets))}


# --- measured ------------------------------------------------------------------------------------


def test_statistics_of_three_bags(one_table: Problem) -> None:
    measured = index_statistics(one_table, {"ROWS": 10}, bags([7, 7, 7, 1, 2], [0, 0, 2, 5]))
    assert measured == IndexStatistics(
        bags=3,
        mean_length=pytest.approx(5 / 3),
        p99_length=pytest.approx(2.98),
        longest=3,
        empty_share=pytest.approx(1 / 3),
        lookups=5,
        distinct_rows=3,
        top_percent_share=pytest.approx(3 / 5),
    )


def test_the_top_percent_are_the_hottest_rows_that_are_used(one_table: Problem) -> None:
    indices = [*range(200), *[5] * 50, *[6] * 30]
    measured = index_statistics(one_table, {"ROWS": 10_000}, bags(indices, [0, 280]))
    assert measured is not None
    assert measured.distinct_rows == 200
    assert measured.top_percent_share == pytest.approx((51 + 31) / 280)


def test_empty_bags_have_no_lookups_and_no_nan(one_table: Problem) -> None:
    assert index_statistics(one_table, {"ROWS": 10}, bags([], [0, 0, 0])) == IndexStatistics(
        2, 0.0, 0.0, 0, 1.0, 0, 0, 0.0
    )


@pytest.mark.parametrize("name", ["EmbeddingBagSum", "TableBatchedEmbeddingBagSum", "JaggedToPadded"])
def test_no_bags_at_all_have_no_statistics_but_zeros(problems: ProblemSet, name: str) -> None:
    assert index_statistics(problems.find(name), {"ROWS": [10]}, bags([], [0])) == NO_BAGS


def test_a_problem_with_bags_but_no_tables_has_lengths_only(problems: ProblemSet) -> None:
    measured = index_statistics(problems.find("JaggedToPadded"), {}, bags([], [0, 4, 6]))
    assert measured == IndexStatistics(2, 3.0, pytest.approx(3.98), 4, 0.0, 0, 0, 0.0)


def test_a_problem_without_bags_has_no_statistics(problems: ProblemSet) -> None:
    assert index_statistics(problems.find("DotInteraction"), {}, {}) is None
    assert row_counts(problems.find("DotInteraction"), {}, {}) == []


def test_rows_are_counted_table_by_table_those_not_looked_up_too(problems: ProblemSet) -> None:
    inputs = bags([2, 2, 0, 1, 1, 1], [0, 2, 3, 3, 6])
    counts = row_counts(problems.find("TableBatchedEmbeddingBagSum"), {"ROWS": [4, 2]}, inputs)
    assert [each.tolist() for each in counts] == [[1, 0, 2, 0], [0, 3]]


@pytest.mark.gpu
def test_statistics_are_the_same_on_a_gpu(one_table: Problem) -> None:
    inputs = bags([7, 7, 7, 1, 2], [0, 0, 2, 5])
    on_gpu = {name: each.cuda() for name, each in inputs.items()}
    there, here = (msgspec.structs.asdict(index_statistics(one_table, {"ROWS": 10}, each)) for each in (on_gpu, inputs))
    assert there == pytest.approx(here)


# --- drawn ---------------------------------------------------------------------------------------


def test_rows_repeat_more_as_the_exponent_rises(names: Callable[..., Mapping[str, Any]]) -> None:
    distinct = [
        names(ZIPF_EXPONENT=exponent)["draw_rows"](20_000, 100_000).unique().numel()
        for exponent in (0.0, 0.5, 1.05, 2.0, 50.0)
    ]
    assert distinct == sorted(set(distinct), reverse=True)
    assert distinct[0] > 0.85 * 100_000 * (1 - math.exp(-0.2))
    assert distinct[-1] < 10


@pytest.mark.parametrize("rows", [1, 3, 1000, 2_000_000])
@pytest.mark.parametrize("hottest", [0, -1])
@pytest.mark.parametrize("shift", [0.01, 10.0])
@pytest.mark.parametrize("exponent", [0.0, 1.05, 50.0])
def test_every_id_is_a_row(
    names: Callable[..., Mapping[str, Any]], exponent: float, shift: float, hottest: int, rows: int
) -> None:
    drawn = names(ZIPF_EXPONENT=exponent, ZIPF_SHIFT=shift, HOTTEST_ROW=hottest)["draw_rows"](50_000, rows)
    assert drawn.dtype == torch.int64
    assert 0 <= drawn.min() <= drawn.max() < rows


@pytest.mark.parametrize("rows", [1000, 100_003, 2_000_000])
def test_hot_rows_are_scattered_over_the_table(names: Callable[..., Mapping[str, Any]], rows: int) -> None:
    counts = torch.bincount(names()["draw_rows"](200_000, rows), minlength=rows)
    hottest = counts.topk(10).indices.sort().values
    assert hottest.diff().min() > 1
    assert hottest[-1] - hottest[0] > rows / 2


def test_every_row_can_be_drawn_the_last_one_too(names: Callable[..., Mapping[str, Any]]) -> None:
    assert names(ZIPF_EXPONENT=0.0)["draw_rows"](10_000, 100).unique().tolist() == list(range(100))


@pytest.mark.parametrize(("hottest", "row"), [(0, 0), (-1, 99), (17, 17)])
def test_a_steep_law_reads_the_hottest_row_alone(
    names: Callable[..., Mapping[str, Any]], hottest: int, row: int
) -> None:
    drawn = names(ZIPF_EXPONENT=50.0, ZIPF_SHIFT=0.01, HOTTEST_ROW=hottest)["draw_rows"](10_000, 100)
    assert drawn.unique().tolist() == [row]


def test_lengths_have_the_mean_and_the_share_of_empty_bags_asked_for(
    names: Callable[..., Mapping[str, Any]],
) -> None:
    lengths = names(LENGTH_SIGMA=1.0, EMPTY_SHARE=0.25)["draw_lengths"](200_000, 50.0)
    assert lengths.double().mean().item() == pytest.approx(0.75 * 50.0, rel=0.03)
    assert (lengths == 0).double().mean().item() == pytest.approx(0.25, rel=0.03)


@pytest.mark.parametrize(("empty_share", "length"), [(0.0, 6), (1.0, 0)])
def test_lengths_without_a_spread_are_all_alike(
    names: Callable[..., Mapping[str, Any]], empty_share: float, length: int
) -> None:
    lengths = names(LENGTH_SIGMA=0.0, EMPTY_SHARE=empty_share)["draw_lengths"](1000, 6.0)
    assert lengths.unique().tolist() == [length]
