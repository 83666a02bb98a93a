"""Exports are written whole or not at all, and over nothing that an export did not write."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.interop.folder import MANIFEST, differences, write

FILES = {"README.md": b"one\ntwo\n", "deep/inside.txt": b"three"}


def contents(path: Path) -> dict[str, bytes]:
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("before", ["missing", "empty"])
def test_a_new_folder_holds_the_files_and_a_manifest(tmp_path: Path, before: str) -> None:
    target = tmp_path / "parent" / "new"
    if before == "empty":
        target.mkdir(parents=True)
    write(target, "test", FILES)
    assert {name: content for name, content in contents(target).items() if name != MANIFEST} == FILES
    assert [path.name for path in target.parent.iterdir()] == ["new"]
    assert differences(target, FILES) == []


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "out", "test", {**FILES, "gone.txt": b""})
    write(tmp_path / "out", "test", FILES)
    first = contents(tmp_path / "out")
    write(tmp_path / "out", "test", FILES)
    assert contents(tmp_path / "out") == first
    assert first.keys() == {*FILES, MANIFEST}


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda path: (path / "mine.txt").write_text("work"), "no export wrote: mine.txt"),
        (lambda path: (path / "README.md").write_text("work"), "no export wrote: README.md"),
        (lambda path: (path / MANIFEST).unlink(), "files that no export wrote"),
        (lambda path: (path / MANIFEST).write_text("{}"), "files that no export wrote"),
        (lambda path: (path / MANIFEST).write_text('{"kind": "other", "files": {}}'), "of other, not of test"),
    ],
    ids=["added", "changed", "no manifest", "another manifest", "another kind"],
)
def test_what_no_export_wrote_stays(tmp_path: Path, spoil: object, complaint: str) -> None:
    target = tmp_path / "out"
    write(target, "test", FILES)
    spoil(target)  # type: ignore[operator]
    before = contents(target)
    with pytest.raises(UsageError, match=complaint):
        write(target, "test", {"README.md": b"new"})
    assert contents(target) == before


def test_a_file_and_an_unwritable_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        write(tmp_path / "file", "test", FILES)
    with pytest.raises(MissingFileError, match="cannot write"):
        write(tmp_path / "file" / "below", "test", FILES)


def test_an_interruption_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "out", "test", FILES)
    before = contents(tmp_path)
    written = Path.write_bytes

    def interrupted(path: Path, content: bytes) -> int:
        if path.name == "inside.txt":
            raise KeyboardInterrupt
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    for target in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / target, "test", FILES)
    assert contents(tmp_path) == before


def test_an_interruption_between_the_two_renames_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out", "test", FILES)
    before = contents(tmp_path)
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if ".new-" in path.name:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", "test", {"README.md": b"new"})
    assert contents(tmp_path) == before


def test_differences_are_named(tmp_path: Path) -> None:
    write(tmp_path, "test", {"README.md": b"one\n2\n", "old.txt": b""})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("")
    assert differences(tmp_path, FILES) == [
        "deep/inside.txt: missing",
        "old.txt: not part of the export",
        "README.md: line 2 differs",
    ]


def test_text_that_goes_on_differs_behind_its_end(tmp_path: Path) -> None:
    write(tmp_path / "out", "test", {"a.txt": b"one\n"})
    assert differences(tmp_path / "out", {"a.txt": b"one\ntwo\n"}) == ["a.txt: line 2 differs"]


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="leave out --check"):
        differences(tmp_path / "nowhere", FILES)
