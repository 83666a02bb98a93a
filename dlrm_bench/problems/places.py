"""Open problems: bundled, of a folder, of a checkout of KernelBench, or of a Hugging Face dataset."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.paths import problems_dir
from dlrm_bench.problems.hub import HUGGING_FACE, Row, read_rows
from dlrm_bench.problems.problem import Problem, ProblemSet
from dlrm_bench.records import ProblemCard

KERNELBENCH = "kernelbench:"
"""What a checkout of KernelBench is named with: `kernelbench:DIR`."""
ELSEWHERE = (KERNELBENCH, HUGGING_FACE)


def load_problems(root: Path | str | None = None, level: int = 1) -> ProblemSet:
    """Open the bundled problems, or those of another place.

    Args:
        root: a folder with `level1/`, `level2/`, ... as KernelBench has them; `kernelbench:DIR`, where that folder may
            also be `DIR/KernelBench`, as in a checkout; or `hf:PLACE`, a Hugging Face dataset with the splits
            `level_1`, `level_2`, ..., in a folder or on the Hub. The bundled problems if left out.
        level: which of them, unless `root` itself ends in one: `kernelbench:DIR/level2`, `hf:PLACE/level_2`.

    Raises:
        MissingFileError: there is no problem at that place, or a file of it cannot be read.
        UsageError: two of its problems have the same id, or its columns are not those of problems.
        CannotRunError: the Hub cannot be reached, or the package that reads datasets is not installed.
    """
    text = "" if root is None else str(root)
    if text.startswith(HUGGING_FACE):
        place, level = _split_level(text.removeprefix(HUGGING_FACE), level)
        found = [_from_row(row, level) for row in read_rows(place, level)]
        where = f"split level_{level} of {place}"
    else:
        folder = _level_folder(root, level)
        found = [_open(path) for path in sorted(folder.glob("*_*.py")) if path.name.split("_")[0].isdigit()]
        where = str(folder)
    opened: dict[int, Problem] = {}
    for problem in found:
        other = opened.setdefault(problem.id, problem)
        if other is not problem:
            raise UsageError(f"{other.name} and {problem.name} in {where} both have the id {problem.id}; rename one")
    if not opened:
        raise MissingFileError(f"no problems in {where}; a folder's are files named ID_Name.py")
    return ProblemSet(tuple(opened[number] for number in sorted(opened)), text or "bundled")


def open_problems(text: str | None, level: int = 1) -> ProblemSet:
    """Open the problems that a command line names.

    Args:
        text: ids or names of bundled problems, comma-separated; or a place, `kernelbench:DIR` or `hf:PLACE` as for
            `load_problems`, or such a place, a colon and a list; all the bundled ones if left out.
        level: which level of them, unless the place says it.

    Raises:
        MissingFileError: there is no such folder, or it holds no problem.
        UnknownProblemError: one of those named is not there.
        UsageError: none is named.
    """
    root, wanted = _place_and_names(text)
    problems = load_problems(root, level)
    if wanted is None:
        return problems
    names = [name for name in wanted.split(",") if name.strip()]
    if not names:
        raise UsageError(f"no problem is named in {text!r}; leave the list out for all of them")
    return ProblemSet(tuple(problems.find(name) for name in names), problems.source)


def open_problem(text: str) -> Problem:
    """Open the one problem that a command line names: an id or a name, or a place, a colon and one of these.

    Raises:
        UnknownProblemError: there is no such problem.
        UsageError: a place is named that holds several, and none of them.
    """
    problems = open_problems(text)
    if len(problems) > 1:
        root, _ = _place_and_names(text)
        one = f"{root}:{problems[0].id}" if root else problems[0].id
        raise UsageError(f"{text} names {len(problems)} problems; name one by its id, as in {one}")
    return problems[0]  # type: ignore[no-any-return]


def _place_and_names(text: str | None) -> tuple[str | None, str | None]:
    prefix = next((each for each in ELSEWHERE if text is not None and text.startswith(each)), None)
    if text is None or prefix is None:
        return None, text
    place, _, wanted = text.rpartition(":")
    if f"{place}:" == prefix or Path(text.removeprefix(prefix)).expanduser().is_dir():
        return text, None
    return place, wanted


def _split_level(place: str, level: int) -> tuple[str, int]:
    """Take a level off the end of a place that names one."""
    named = re.fullmatch(r"(.+)/level_?(\d+)/?", place)
    return (named[1], int(named[2])) if named else (place, level)


def _level_folder(root: Path | str | None, level: int) -> Path:
    """Return the folder with the files of a level."""
    if root is None:
        return problems_dir() / f"level{level}"
    place, level = _split_level(str(root).removeprefix(KERNELBENCH), level)
    folder = Path(place).expanduser()
    inside = folder / "KernelBench"
    return (inside if str(root).startswith(KERNELBENCH) and inside.is_dir() else folder) / f"level{level}"


def _from_row(row: Row, level: int) -> Problem:
    # KernelBench's datasets hold the file's stem, and its loader of folders the file's name.
    name = row.name.removeprefix(f"{row.problem_id}_").removesuffix(".py")
    return Problem(row.problem_id, name, row.code, row.card, level)


def _open(path: Path) -> Problem:
    number, name = path.stem.split("_", 1)
    sidecar = path.with_suffix(".toml")
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise MissingFileError(f"cannot read {path}: {reason}") from error
    card = _read_card(sidecar) if sidecar.exists() else None
    return Problem(int(number), name, code, card, int(path.parent.name.removeprefix("level")))


def _read_card(path: Path) -> ProblemCard:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=ProblemCard)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
