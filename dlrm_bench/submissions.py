"""Open submissions: source text that defines `ModelNew`, each with the problem it is for."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import msgspec

from dlrm_bench.errors import MissingFileError, SubmissionError, UnknownProblemError, UsageError
from dlrm_bench.problems import Problem, ProblemSet, load_problems

BaselineName = Literal["eager", "inductor", "fbgemm"]
BASELINES: tuple[BaselineName, ...] = get_args(BaselineName)
CARDLESS_BASELINES: tuple[BaselineName, ...] = ("eager", "inductor")
LIBRARY_ABOUT = {
    "fbgemm": "fbgemm-gpu's operator",
    "torchrec": "torchrec's module",
    "composition": "the best composition of library calls",
}
KERNELBENCH_RUN = re.compile(r"level_(?P<level>\d+)_problem_(?P<problem>\d+)_sample_(?P<sample>\d+)_kernel")

_EAGER = """

class ModelNew(Model):
    pass
"""
_INDUCTOR = """

class ModelNew(Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.compile()
"""
_MARKED = """
    def __call__(self, {arguments}):
        # Said at once: torch.compile would find out by compiling twice, for the first sizes alone and then for any.
        for ragged in ({ragged},):
            torch._dynamo.maybe_mark_dynamic(ragged, 0)
        return super().__call__({arguments})
"""


@dataclass(frozen=True)
class Submission:
    """Source text for one problem.

    Attributes:
        label: what it is called in results.
        problem: what it claims to solve.
        source: text that defines `ModelNew`.
        about: one line on what it is made of, if known.
    """

    label: str
    problem: Problem
    source: str
    about: str = ""

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.source.encode()).hexdigest()


class SubmissionLine(msgspec.Struct, frozen=True):
    """A submission as a line of JSON: what generators write."""

    problem: str | int
    code: str
    sample: int | None = None


def baseline(name: str, problem: Problem) -> Submission:
    """Return what people run today, in submission form.

    Args:
        name: `eager`, `inductor` or `fbgemm` (the library baseline: torchrec or a composition of library calls where
            fbgemm has no operator for the problem).
        problem: for which problem.

    Raises:
        UsageError: there is no such baseline.
    """
    label = f"baseline:{name}"
    if name == "eager":
        return Submission(label, problem, problem.code + _EAGER, "the reference in eager PyTorch")
    if name == "inductor":
        return Submission(label, problem, problem.code + _inductor(problem), "the reference under torch.compile")
    if name == "fbgemm":
        path = Path(__file__).parent / "baselines" / "fbgemm" / f"{problem.id}_{problem.name}.py"
        if problem.card is None or not path.exists():
            raise UsageError(f"{problem.name} has no library baseline; eager and inductor run for any problem")
        return Submission(label, problem, path.read_text(), LIBRARY_ABOUT[problem.card.library])
    raise UsageError(f"no baseline {name!r}; there are {', '.join(BASELINES)}")


def _inductor(problem: Problem) -> str:
    if problem.card is None or not problem.card.ragged:
        return _INDUCTOR
    [model] = [each for each in ast.parse(problem.code).body if isinstance(each, ast.ClassDef) and each.name == "Model"]
    [forward] = [each for each in model.body if isinstance(each, ast.FunctionDef) and each.name == "forward"]
    arguments = ", ".join(each.arg for each in forward.args.args[1:])
    return _INDUCTOR + _MARKED.format(arguments=arguments, ragged=", ".join(problem.card.ragged))


def solution(name: str, problem: Problem) -> Submission:
    """Return a kernel that ships with the package, in submission form.

    Args:
        name: `triton`, or `cuda` where Triton cannot get as near to the floor.
        problem: for which problem.

    Raises:
        UsageError: there is no such solution for the problem.
    """
    paths = _solutions(problem)
    if name not in paths:
        known = f"there is {' and '.join(sorted(paths))}" if paths else "there is none"
        raise UsageError(f"no solution {name!r} for {problem.name}; {known}")
    return Submission(f"solution:{name}", problem, paths[name].read_text())


def _solutions(problem: Problem) -> dict[str, Path]:
    kinds = (Path(__file__).parent / "solutions").iterdir()
    return {kind.name: path for kind in kinds if (path := kind / f"{problem.id}_{problem.name}.py").exists()}


SHIPPED = {"baseline": baseline, "solution": solution}


def open_submissions(sources: Iterable[str], problems: Sequence[Problem]) -> list[Submission]:
    """Open everything that a command line names.

    Args:
        sources: `baseline:NAME`, `solution:NAME`, files, folders (KernelBench's runs/ folders among them), or `.jsonl`
            files with a `problem` and a `code` a line. A solution is opened for those problems that it is there for.
        problems: the problems they may be for; a file for any other is left out.

    Raises:
        MissingFileError: a path does not exist.
        SubmissionError: there is nothing to judge in it.
        UsageError: no such baseline, or no such solution for any of the problems.
    """
    known = problems if isinstance(problems, ProblemSet) else ProblemSet(tuple(problems))
    return [submission for source in sources for submission in _open(source, known)]


def open_one(source: str, problem: Problem) -> Submission:
    """Open a file, `baseline:NAME` or `solution:NAME` as a submission for a problem that is named beside it.

    Raises:
        MissingFileError: there is no such file, or it cannot be read as text.
        UsageError: no such baseline.
    """
    kind, _, name = source.partition(":")
    if kind in SHIPPED:
        return SHIPPED[kind](name, problem)
    path = Path(source)
    return Submission(path.stem, problem, _read(path))


def _open(source: str, problems: ProblemSet) -> Iterator[Submission]:
    kind, _, name = source.partition(":")
    path = Path(source)
    if kind in SHIPPED:
        if kind == "solution":
            # If there is none for any of them, opening it for the first says so.
            problems = ProblemSet(tuple(each for each in problems if name in _solutions(each))) or problems
        yield from (SHIPPED[kind](name, problem) for problem in problems)
    elif path.is_dir():
        yield from _open_folder(path, problems)
    elif path.suffix == ".jsonl":
        yield from _open_lines(path, problems)
    else:
        text = _read(path)
        problem = _problem_of(path, problems)
        if problem is None:
            raise SubmissionError(
                f"cannot tell which problem {path} is for; name it ID_Name.py, or run `dlrm-bench check PROBLEM {path}`"
            )
        yield Submission(path.stem, problem, text)


def _open_folder(folder: Path, problems: ProblemSet) -> list[Submission]:
    files = [(path, _problem_of(path, problems)) for path in sorted(folder.rglob("*.py"))]
    found = [Submission(path.stem, problem, _read(path)) for path, problem in files if problem is not None]
    if not found:
        raise SubmissionError(
            f"no submission in {folder}: none of its {len(files)} .py files is named ID_Name.py after a problem, "
            "or level_L_problem_P_sample_S_kernel.py as KernelBench does" + _other_levels(files, problems)
        )
    return found


def _other_levels(files: Iterable[tuple[Path, Problem | None]], problems: ProblemSet) -> str:
    """Say how to open problems of the levels that KernelBench's runs are for, where those are not the given ones."""
    runs = [run for path, _ in files if (run := KERNELBENCH_RUN.search(path.stem))]
    others = sorted({int(run["level"]) for run in runs} - {problem.level for problem in problems})
    if not others:
        return ""
    return f"; those of level {', '.join(map(str, others))} open with --problems kernelbench:CHECKOUT/level{others[0]}"


def _open_lines(path: Path, problems: ProblemSet) -> Iterator[Submission]:
    for number, line in enumerate(_read(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=SubmissionLine)
        except msgspec.DecodeError as error:
            raise SubmissionError(f"{path}, line {number}: {error}") from error
        sample = number if entry.sample is None else entry.sample
        problem = _asked_for(entry.problem, problems)
        if problem is not None:
            yield Submission(f"{path.stem}:sample_{sample}", problem, entry.code)


def _asked_for(wanted: str | int, problems: ProblemSet) -> Problem | None:
    """Return the problem of that id or name; `None` for a bundled one that is not among those asked for."""
    try:
        return problems.find(wanted)
    except UnknownProblemError:
        if problems.source != "bundled":
            raise
        load_problems().find(wanted)
        return None


def _problem_of(path: Path, problems: ProblemSet) -> Problem | None:
    run = KERNELBENCH_RUN.search(path.stem)
    candidates = [run["problem"]] if run else [path.stem.split("_", 1)[0], path.stem, path.stem.split("_", 1)[-1]]
    for candidate in candidates:
        try:
            problem = problems.find(candidate)
        except UnknownProblemError:
            continue
        return problem if run is None or problem.level == int(run["level"]) else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise MissingFileError(f"cannot read {path}: {reason}") from error
