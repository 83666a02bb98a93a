"""What one child has precompiled is there for the next, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.headers import HeaderStore
from dlrm_bench.sandbox.limits import Limits

HEADER = "torchinductor_me/precompiled_headers/abc.h.gch"
WRITES = f"""
import os, tempfile
path = os.path.join(tempfile.gettempdir(), "{HEADER}")
os.makedirs(os.path.dirname(path))
open(path, "w").write("precompiled")
class ModelNew: pass
"""


@pytest.fixture
def store() -> Iterator[HeaderStore]:
    with closing(HeaderStore()) as running:
        yield running


def test_what_a_child_has_precompiled_reaches_the_next(store: HeaderStore) -> None:
    with (
        closing(Child(torch.device("cpu"), Limits())) as first,
        closing(Child(torch.device("cpu"), Limits())) as second,
    ):
        first.load(WRITES)
        store.keep(first.workspace)
        store.lend(second.workspace)
        second.load(f"import os\nassert os.path.getsize('{HEADER}')\nclass ModelNew: pass")


def test_it_outlives_the_child(store: HeaderStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / HEADER).parent.mkdir(parents=True)
    (first / HEADER).write_text("precompiled")
    store.keep(first)
    store.keep(first)
    (first / HEADER).unlink()
    store.lend(second)
    assert (second / HEADER).read_text() == "precompiled"


def test_nothing_else_is_handed_on(store: HeaderStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for name in ("submission.py", "torchinductor_me/ab/kernel.so"):
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_text("mine")
    store.keep(first)
    store.lend(second)
    assert not second.exists()


def test_closing_removes_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = HeaderStore()
    (tmp_path / "child" / HEADER).parent.mkdir(parents=True)
    (tmp_path / "child" / HEADER).write_text("precompiled")
    store.keep(tmp_path / "child")
    store.close()
    assert [each.name for each in tmp_path.iterdir()] == ["child"]
