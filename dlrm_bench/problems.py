"""Open problems: a KernelBench-format file, its card of facts, and the sizes and cases that it is judged on."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from dlrm_bench.errors import MissingFileError, UnknownProblemError, UsageError
from dlrm_bench.paths import problems_dir
from dlrm_bench.records import Constant, ProblemCard, Size

DEFAULT_CASE = "default"
CARDLESS_CASES = (DEFAULT_CASE, "scaled", "wide")
"""Cases of a problem that says nothing of its constants: other values of the same shapes (correctness.variations)."""
KERNELBENCH = "kernelbench:"
"""What a checkout of KernelBench is named with: `kernelbench:DIR`."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        id: its number within the level, as in the file's name.
        name: its name, as in the file's name after the number.
        code: the file's text: what a model is shown, and what other harnesses run.
        card: the sidecar of facts; `None` for a problem that came without one.
    """

    id: int
    name: str
    code: str
    card: ProblemCard | None = None

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text, by which records name the version of the problem that was run."""
        return hashlib.sha256(self.code.encode()).hexdigest()

    @cached_property
    def defaults(self) -> Mapping[str, Constant]:
        """The module constants as they stand in the file."""
        return _module_constants(self.code)

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of all cases, the default one first."""
        return (DEFAULT_CASE, *(case.name for case in self.card.cases)) if self.card else CARDLESS_CASES

    def overrides(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Constant]:
        """Return the constants that a size and a case change, the case's last.

        Raises:
            UsageError: the problem has no such case, or no small size.
        """
        if self.card is None:
            if size == "small" or case not in CARDLESS_CASES:
                raise UsageError(f"{self.name} has no card: it has size full, and cases {', '.join(CARDLESS_CASES)}")
            return {}
        changed = dict(self.card.small) if size == "small" else {}
        if case != DEFAULT_CASE:
            known = {each.name: each for each in self.card.cases}
            if case not in known:
                raise UsageError(f"{self.name} has no case {case!r}; it has {', '.join(self.cases)}")
            changed.update(known[case].set)
        return changed

    def constants(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Constant]:
        """Return every module constant, with the changes of `size` and `case` made."""
        return {**self.defaults, **self.overrides(size, case)}

    def namespace(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Any]:
        """Run the file's text in a namespace of its own and set the constants of `size` and `case`.

        Imports torch. The text is trusted: it is the problem, not a submission.

        Returns:
            The namespace, with `Model`, `get_inputs` and `get_init_inputs`.
        """
        changed = self.overrides(size, case)
        names: dict[str, Any] = {"__name__": f"dlrm_bench_problem_{self.id}"}
        exec(compile(self.code, f"{self.name}.py", "exec"), names)
        names.update(changed)
        return names


@dataclass(frozen=True)
class ProblemSet(Sequence[Problem]):
    """Problems in the order of their ids, found by id or by name."""

    problems: tuple[Problem, ...]
    source: str = field(default="bundled")

    def __getitem__(self, index: Any) -> Any:
        return self.problems[index]

    def __len__(self) -> int:
        return len(self.problems)

    def find(self, wanted: str | int) -> Problem:
        """Return the problem with this id or name; letter case does not matter.

        Raises:
            UnknownProblemError: with the nearest names.
        """
        text = str(wanted).strip()
        by_name = {problem.name.lower(): problem for problem in self.problems}
        by_id = {str(problem.id): problem for problem in self.problems}
        found = by_id.get(text.lstrip("0")) or by_name.get(text.lower())
        if found is None:
            near = [by_name[name].name for name in difflib.get_close_matches(text.lower(), by_name, n=3, cutoff=0.4)]
            others = "`dlrm-bench list` shows them all" if self.source == "bundled" else f"{self.source} has others"
            hint = f"did you mean {' or '.join(near)}?" if near else others
            raise UnknownProblemError(f"no problem {text!r}; {hint}")
        return found


def load_problems(root: Path | str | None = None, level: int = 1) -> ProblemSet:
    """Open the bundled problems, or those of another folder laid out as KernelBench's.

    Args:
        root: a folder with `level1/`, `level2/`, ...; or `kernelbench:DIR`, where that folder may also be
            `DIR/KernelBench`, as in a checkout; the bundled one if left out.
        level: which of them.

    Raises:
        MissingFileError: the folder holds no problem, or a file of it cannot be read.
        UsageError: two of its problems have the same id.
    """
    folder = _levels(root) / f"level{level}"
    opened: dict[int, Problem] = {}
    for problem in (_open(path) for path in sorted(folder.glob("*_*.py")) if path.name.split("_")[0].isdigit()):
        other = opened.setdefault(problem.id, problem)
        if other is not problem:
            raise UsageError(f"{other.name} and {problem.name} in {folder} both have the id {problem.id}; rename one")
    if not opened:
        raise MissingFileError(f"no problem files named ID_Name.py in {folder}")
    return ProblemSet(tuple(opened[number] for number in sorted(opened)), "bundled" if root is None else str(root))


def open_problems(text: str | None, level: int = 1) -> ProblemSet:
    """Open the problems that a command line names.

    Args:
        text: ids or names of bundled problems, comma-separated; or `kernelbench:DIR`, or `kernelbench:DIR:` and such a
            list; all the bundled ones if left out.
        level: which level of them.

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


def _place_and_names(text: str | None) -> tuple[str | None, str | None]:
    if text is None or not text.startswith(KERNELBENCH):
        return None, text
    place, _, wanted = text.rpartition(":")
    if f"{place}:" == KERNELBENCH or _levels(text).is_dir():
        return text, None
    return place, wanted


def _levels(root: Path | str | None) -> Path:
    """Return the folder that holds `level1/`, `level2/`, ..."""
    if root is None:
        return problems_dir()
    folder = Path(str(root).removeprefix(KERNELBENCH)).expanduser()
    inside = folder / "KernelBench"
    return inside if str(root).startswith(KERNELBENCH) and inside.is_dir() else folder


def _open(path: Path) -> Problem:
    number, name = path.stem.split("_", 1)
    sidecar = path.with_suffix(".toml")
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise MissingFileError(f"cannot read {path}: {reason}") from error
    return Problem(int(number), name, code, _read_card(sidecar) if sidecar.exists() else None)


def _read_card(path: Path) -> ProblemCard:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=ProblemCard)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}") from error


def _module_constants(code: str) -> dict[str, Constant]:
    constants = {}
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name.isupper():
                try:
                    constants[name] = ast.literal_eval(statement.value)
                except ValueError:
                    continue
    return constants
