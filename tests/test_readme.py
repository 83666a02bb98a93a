"""Every figure in the README's tables comes from a record in the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
