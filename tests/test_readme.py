"""Every figure in the README's tables comes from a record in the repository."""

from __future__ import annotations

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


def test_what_the_docs_say_of_equal_runs_is_in_the_records(root: Path) -> None:
    results = read_results(root / "reference_traces" / "h200" / "results.jsonl")
    ratios = [each.measurement.control for each in results if each.measurement is not None]
    controls = len(ratios)
    for each in results:
        assert each.measurement is not None
        ratios += [beside.speedup for beside in each.measurement.comparisons if beside.baseline in each.submission]
    near = sum(abs(ratio - 1) < 0.005 for ratio in ratios if ratio is not None)
    farthest = max(abs(ratio - 1) for ratio in ratios if ratio is not None)
    text = " ".join((root / "docs" / "timing.md").read_text().split())
    assert f"{len(ratios)} times ({controls} controls, {len(ratios) - controls} baselines beside themselves)" in text
    assert f"{near} ratios lie within 0.5% of 1, the largest is {farthest:.1%} off" in text
