from __future__ import annotations

import io
import re
from collections.abc import Callable

import msgspec
import pytest
from rich.console import Console

from dlrm_bench.records import Comparison, Result
from dlrm_bench.report.text import (
    comparison_line,
    markdown,
    provenance,
    result_rows,
    summary_rows,
    table,
    verdict_line,
)

MakeComparison = Callable[..., Comparison]
MakeResult = Callable[..., Result]
UNSUPPORTED = Comparison("fbgemm", "unsupported", "no CPU kernel")


@pytest.fixture
def results(make_result: MakeResult, make_comparison: MakeComparison) -> list[Result]:
    return [
        make_result(1, comparisons=[make_comparison("eager", 2.5, "win"), UNSUPPORTED]),
        make_result(7, "other", status="incorrect"),
    ]


def cells(text: str) -> list[list[str]]:
    """Read a Markdown table; a bar behind a backslash is text."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]


def printed(header: list[str], rows: list[list[str]]) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table(header, rows, "Title"))
    return console.file.getvalue()


# --- lines ---------------------------------------------------------------------------------------


def test_a_verdict_in_one_line_says_why_or_how_many_trials(results: list[Result]) -> None:
    assert verdict_line(results[0]) == "EmbeddingBagSum: correct: 0 trials"
    assert verdict_line(results[1]) == "DotInteraction: incorrect: off by a lot"


def test_a_comparison_in_one_line_has_its_interval_and_outcome(make_comparison: MakeComparison) -> None:
    line = comparison_line(make_comparison("eager", 2.0, "win"))
    assert line == "eager: 2.000x [1.980, 2.020] win, 20.0 us (what eager is)"


def test_a_baseline_without_a_time_says_why() -> None:
    assert comparison_line(UNSUPPORTED) == "fbgemm: unsupported: no CPU kernel"


# --- rows ----------------------------------------------------------------------------------------


def test_a_row_of_results_has_a_column_for_each_baseline(results: list[Result]) -> None:
    header, rows = result_rows(results)
    assert header == ["problem", "submission", "status", "time us", "vs eager", "vs fbgemm", "of floor"]
    assert rows == [
        ["1 EmbeddingBagSum", "kernel", "correct", "10.0", "2.50 win", "-", "80%"],
        ["7 DotInteraction", "other", "incorrect", "-", "-", "-", "-"],
    ]


def test_a_row_of_the_summary_is_a_submission_beside_a_baseline(results: list[Result]) -> None:
    header, rows = summary_rows(results)
    assert rows == [
        ["kernel", "1 of 1", "eager", "1", "0", "100%", "2.500", "2.500", "100%"],
        ["kernel", "1 of 1", "fbgemm", "0", "0", "0%", "-", "-", "0%"],
        ["kernel", "1 of 1", "best of these", "1", "0", "100%", "2.500", "2.500", "100%"],
        ["other", "0 of 1", *["-"] * 7],
    ]
    assert {len(row) for row in rows} == {len(header)}


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_of", [result_rows, summary_rows])
def test_a_markdown_table_has_a_rule_and_as_many_cells_in_every_line(
    results: list[Result], rows_of: Callable[..., tuple[list[str], list[list[str]]]]
) -> None:
    header, rows = rows_of(results)
    assert cells(markdown(header, rows)) == [header, ["---"] * len(header), *rows]


def test_a_bar_in_a_label_does_not_split_a_markdown_cell(make_result: MakeResult) -> None:
    header, rows = result_rows([make_result(submission="a|b")])
    assert {len(line) for line in cells(markdown(header, rows))} == {len(header)}


def test_a_table_for_a_terminal_shows_every_cell(results: list[Result]) -> None:
    header, rows = result_rows(results)
    text = printed(header, rows)
    assert all(cell in text for cell in (*header, *rows[0], *rows[1]))


@pytest.mark.parametrize("label", ["kernel[v2]", "kernel[/v2]"])
def test_a_label_with_brackets_is_shown_as_it_is(make_result: MakeResult, label: str) -> None:
    assert label in printed(*result_rows([make_result(submission=label)]))


# --- provenance ----------------------------------------------------------------------------------


def test_provenance_says_where_results_were_made(results: list[Result]) -> None:
    line = "Test GPU; torch 2.13.0, triton 3.7.0, fbgemm-gpu 1.8.0, driver 570.1; size small, fp32"
    assert provenance(results) == [f"{line}, cuda_events, effort quick", line]


def test_provenance_has_one_line_for_results_made_alike(make_result: MakeResult) -> None:
    here, there = make_result(1), make_result(2)
    environment = msgspec.structs.replace(there.environment, device="CPU, 2 threads", driver=None, triton=None)
    other = msgspec.structs.replace(there, environment=environment)
    assert len(provenance([here, there])) == 1
    assert provenance([here, other])[1] == "CPU, 2 threads; torch 2.13.0, fbgemm-gpu 1.8.0; size small, fp32"
