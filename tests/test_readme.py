"""Every figure in the README's tables comes from a record in the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlrm_bench.runs import read_results


@pytest.mark.parametrize("folder", ["cpu", "h200"])
def test_its_tables_are_what_report_prints(cli: Callable[..., Any], root: Path, folder: str) -> None:
    called = cli("report", root / "reference_traces" / folder / "results.jsonl", "--format", "md")
    assert called.out.strip() in (root / "README.md").read_text()


def test_its_kernel_is_correct(cli: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text()
    source = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "mine.py").write_text(source)
    called = cli("check", 7, tmp_path / "mine.py", "--device", "cpu")
    assert (called.code, "correct" in called.out) == (0, True)


def test_what_the_docs_say_of_the_clock_is_in_the_records(python: Callable[..., Any], root: Path) -> None:
    records = root / "reference_traces" / "h200" / "clock.jsonl"
    called = python("-m", "benchmarks.check_clock", "table", records)
    assert called.code == 0, called.err
    assert called.out.strip() in (root / "docs" / "timing.md").read_text()


def test_timing_takes_as_long_as_it_may(root: Path) -> None:
    for each in read_results(root / "reference_traces" / "h200" / "results.jsonl"):
        assert each.measurement is not None
        assert (each.measurement.effort, len(each.measurement.comparisons)) == ("standard", 3)
        assert each.measurement.seconds is not None
        assert each.measurement.seconds <= 20


def test_what_it_says_of_a_whole_step_is_in_the_records(cli: Callable[..., Any], root: Path) -> None:
    splices = json.loads(
        cli("project", "--measured", root / "reference_traces" / "h200" / "splice.jsonl", "--json").out
    )
    [inference] = [each for each in splices if each["workload"] == "dlrm-inference-eager"]
    [replay] = [each["saved"] for each in inference["projected"] if each["method"] == "replay"]
    text = " ".join((root / "README.md").read_text().split())
    assert f"projects {replay:.1%} of the step's time saved" in text
    assert f"the step takes {inference['times']['saved']:.1%} less" in text
