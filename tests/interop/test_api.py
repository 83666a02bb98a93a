"""The examples in docs/api.md are run as they stand."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dlrm_bench
from dlrm_bench.interop.reward import close
from dlrm_bench.paths import traces_dir


def test_the_examples_of_the_page_are_true(root: Path) -> None:
    names = {"reference_traces": traces_dir()}
    failed, tried = doctest.testfile(str(root / "docs" / "api.md"), module_relative=False, globs=names)
    close()
    assert (failed, tried > 30) == (0, True)


def test_what_the_package_offers_is_there_and_imported_late(python: Callable[..., Any]) -> None:
    called = python("-c", "import sys, dlrm_bench; print('dlrm_bench.problems' in sys.modules, 'torch' in sys.modules)")
    assert called.out == "False False\n"
    assert callable(dlrm_bench.load_problems)
    assert callable(dlrm_bench.reward)
    with pytest.raises(AttributeError, match="has no attribute 'rewards'"):
        _ = dlrm_bench.rewards  # type: ignore[attr-defined]
