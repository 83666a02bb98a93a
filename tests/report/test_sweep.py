"""A sweep's table and figure say what its points hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.cli.time_command import SWEEP_NAMES
from dlrm_bench.engines.sweep import SWEEPS
from dlrm_bench.records import SweepPoint
from dlrm_bench.report.sweep import draw, sweep_rows
from dlrm_bench.runs import read_sweep

Make = Callable[..., Any]


@pytest.fixture
def points(make_result: Make, make_comparison: Make) -> list[SweepPoint]:
    timed = [make_result(comparisons=[make_comparison("eager", speedup, "win")]) for speedup in (2.0, 3.5)]
    return [
        *(SweepPoint("BATCH", size, each) for size, each in zip((64, 256), timed, strict=True)),
        SweepPoint("BATCH", 1024, make_result(status="crash")),
    ]


def test_each_point_is_a_row(points: list[SweepPoint]) -> None:
    header, rows = sweep_rows(points)
    assert header == ["BATCH", "unique", "status", "time us", "vs eager", "of floor"]
    assert rows == [
        ["64", "-", "correct", "10.0", "2.00", "80%"],
        ["256", "-", "correct", "10.0", "3.50", "80%"],
        ["1024", "-", "crash", "-", "-", "-"],
    ]


def test_it_is_drawn(points: list[SweepPoint], tmp_path: Path) -> None:
    draw(points, "EmbeddingBagSum", tmp_path / "sweep.svg")
    text = (tmp_path / "sweep.svg").read_text()
    assert text.lstrip().startswith("<?xml")


def test_a_file_of_it_is_reported(points: list[SweepPoint], cli: Make, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(point) + b"\n" for point in points))
    table = cli("report", file, "--format", "md").out
    assert "| BATCH | unique | status | time us | vs eager | of floor |" in table
    assert "| 256 | - | correct | 10.0 | 3.50 | 80% |" in table
    assert "over BATCH" in cli("report", file).out
    assert read_sweep(file) == points


def test_what_is_no_sweep_is_read_as_results(points: list[SweepPoint], cli: Make, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_bytes(msgspec.json.encode(points[0]) + b"\n" + b'{"constant": 1}\n')
    called = cli("report", file)
    assert called.code != 0
    assert "line 1 is not a result" in called.err
    assert read_sweep(tmp_path) == []


def test_the_command_knows_every_sweep() -> None:
    assert set(SWEEP_NAMES) == set(SWEEPS)


def test_a_problem_without_the_constant_has_no_sweep(cli: Make) -> None:
    called = cli("time", 9, "baseline:eager", "--sweep", "skew", "--device", "cpu", "--baseline", "")
    assert called.code == 2
    assert "FactorizationMachine has no constant ZIPF_EXPONENT" in called.err


@pytest.mark.slow
def test_a_sweep_runs_to_its_end(cli: Make) -> None:
    called = cli(
        "time", 1, "baseline:eager", "--sweep", "batch", "--device", "cpu", "--effort", "quick", "--baseline", "eager"
    )
    assert called.code == 0
    assert called.out.count("correct") == 5
