"""Folders laid out as KernelBench's open as problems."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dlrm_bench.errors import MissingFileError, UnknownProblemError, UsageError
from dlrm_bench.problems import DEFAULT_CASE, ProblemSet, load_problems, open_problems

NAMES = ["softmax_over_long_rows_", "FrobeniusNorm_", "L2Norm__long_rows", "Min_reduction_over_a_dimension"]


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """Return a folder to change, laid out as a checkout; its name holds what separates it from a list of problems."""
    return Path(shutil.copytree(root / "tests" / "kernelbench", tmp_path / "check:out"))


def test_a_checkout_opens_in_the_order_of_the_ids_and_without_cards(checkout: Path) -> None:
    opened = load_problems(f"kernelbench:{checkout}")
    assert [(problem.id, problem.name) for problem in opened] == list(zip([23, 37, 39, 53], NAMES, strict=True))
    assert {problem.cases for problem in opened} == {(DEFAULT_CASE, "scaled", "wide")}


def test_the_folder_that_holds_the_levels_opens_the_same(checkout: Path) -> None:
    inside = checkout / "KernelBench"
    assert (
        list(load_problems(f"kernelbench:{inside}"))
        == list(load_problems(inside))
        == list(open_problems(f"kernelbench:{checkout}"))
    )


@pytest.mark.parametrize("level", [2, 5])
def test_another_level_opens(checkout: Path, level: int) -> None:
    (checkout / "KernelBench" / "level1").rename(checkout / "KernelBench" / f"level{level}")
    assert len(open_problems(f"kernelbench:{checkout}", level)) == 4
    with pytest.raises(MissingFileError, match="level1"):
        open_problems(f"kernelbench:{checkout}")


@pytest.mark.parametrize("wanted", ["39,23", "L2Norm__long_rows,SOFTMAX_over_long_rows_", "039, 23,"])
def test_a_list_chooses_by_id_or_name(checkout: Path, wanted: str) -> None:
    assert [problem.id for problem in open_problems(f"kernelbench:{checkout}:{wanted}")] == [39, 23]


def test_a_home_folder_is_understood(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checkout.parent))
    assert len(open_problems("kernelbench:~/check:out")) == 4


def test_nothing_and_names_mean_the_bundled_problems(problems: ProblemSet) -> None:
    assert list(open_problems(None)) == list(problems)
    assert list(open_problems("DotInteraction,1")) == [problems.find(7), problems.find(1)]


def test_an_unknown_problem_is_refused_and_the_folder_named(checkout: Path) -> None:
    with pytest.raises(UnknownProblemError, match=r"no problem '99'; kernelbench:.*check:out has others"):
        open_problems(f"kernelbench:{checkout}:99")


@pytest.mark.parametrize("text", ["", " , ", "kernelbench:{}:", "kernelbench:{}:,"])
def test_an_empty_list_is_refused(checkout: Path, text: str) -> None:
    with pytest.raises(UsageError, match="no problem is named"):
        open_problems(text.format(checkout))


@pytest.mark.parametrize("text", ["kernelbench:", "kernelbench:/nowhere/at/all", "kernelbench:/nowhere/at/all:1,2"])
def test_a_folder_that_is_not_there_is_refused_with_its_path(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError, match="level1"):
        open_problems(text)


def test_two_files_with_one_id_are_refused(checkout: Path) -> None:
    level = checkout / "KernelBench" / "level1"
    shutil.copy(level / "37_FrobeniusNorm_.py", level / "037_Again.py")
    with pytest.raises(UsageError, match=r"Again and FrobeniusNorm_ in .* both have the id 37"):
        open_problems(f"kernelbench:{checkout}")


def test_a_file_that_is_not_text_is_refused_with_its_path(checkout: Path) -> None:
    (checkout / "KernelBench" / "level1" / "7_Broken.py").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(MissingFileError, match=r"7_Broken\.py: it is not UTF-8"):
        open_problems(f"kernelbench:{checkout}")


def test_files_that_are_no_problems_are_left_out(checkout: Path) -> None:
    for name in ("helpers.py", "x_4.py", "__init__.py", "7.py", "5_Notes.md"):
        (checkout / "KernelBench" / "level1" / name).write_text("")
    assert len(open_problems(f"kernelbench:{checkout}")) == 4
