"""A folder of a model's samples: code under KernelBench's names, prompt and answer beside each, and the results.

generation.json                                 what was asked (a `Plan`)
level_1_problem_P_sample_S_kernel.py            the code of an answer
level_1_problem_P_sample_S_generation.json      its prompt and the answer as it came (a `Generation`)
run.json, results.jsonl                         as `eval -o` writes them, once it was evaluated
round_1/, round_2/, ...                         such folders, where every round had the verdict on the one before
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import Generation, Plan, Record, Result
from dlrm_bench.runs import RESULTS_FILE, RunFolder, read_results
from dlrm_bench.submissions import Submission, open_submissions

if TYPE_CHECKING:
    from dlrm_bench.evaluate import Settings

PLAN_FILE = "generation.json"
R = TypeVar("R", bound=Record)


class SampleFolder:
    """One folder of samples of one model, asked in one way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def plan(self) -> Plan | None:
        """What was asked; `None` if the samples came from elsewhere."""
        file = self.path / PLAN_FILE
        return _decode(file, Plan) if file.exists() else None

    def begin(self, plan: Plan) -> None:
        """Make the folder, or go on in it.

        Raises:
            UsageError: it holds answers that were asked in another way.
            MissingFileError: it cannot be written.
        """
        before = self.plan
        if before is None:
            _write(self.path / PLAN_FILE, msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
            return
        for name in plan.__struct_fields__:
            old, new = getattr(before, name), getattr(plan, name)
            if old != new:
                raise UsageError(f"{self.path} holds answers with {name} {old}, not {new}; name another folder")

    def read(self, problem: Problem, sample: int) -> Generation | None:
        """Return an answer that is there, `None` if it is not.

        Raises:
            UsageError: it is for another version of the problem.
        """
        file = self._file(problem, sample, "generation.json")
        if not (file.exists() and self.code_file(problem, sample).exists()):
            return None
        found = _decode(file, Generation)
        if found.problem_hash != problem.hash:
            raise UsageError(f"{file} is for another version of {problem.name}; name another folder")
        return found

    def add(self, problem: Problem, generation: Generation, code: str) -> None:
        """Write an answer and its code; the answer last, since it says that both are there."""
        _write(self.code_file(problem, generation.sample), code.encode())
        file = self._file(problem, generation.sample, "generation.json")
        _write(file, msgspec.json.format(msgspec.json.encode(generation)) + b"\n")

    def code_file(self, problem: Problem, sample: int) -> Path:
        """Return where the code of an answer is."""
        return self._file(problem, sample, "kernel.py")

    def submissions(self, problems: ProblemSet) -> list[Submission]:
        """Open what is directly in the folder; nothing if it holds results alone."""
        files = [str(path) for path in sorted(self.path.glob("*.py"))]
        return open_submissions(files, problems) if files else []

    def results(self, problems: Sequence[Problem]) -> list[Result]:
        """Return the results for these problems, the last for each submission."""
        if not (self.path / RESULTS_FILE).exists():
            return []
        hashes = {problem.hash for problem in problems}
        found = [each for each in read_results(self.path) if each.problem_hash in hashes]
        return list({(each.submission, each.problem): each for each in found}.values())

    def missing(self, problems: ProblemSet) -> list[Submission]:
        """Return the samples without a result."""
        done = {(each.submission, each.submission_hash, each.problem_hash) for each in self.results(problems)}
        return [each for each in self.submissions(problems) if (each.label, each.hash, each.problem.hash) not in done]

    def evaluate(self, submissions: Sequence[Submission], settings: Settings) -> Iterator[Result]:
        """Evaluate samples of the folder and keep the results in it, as `eval -o` does."""
        from dlrm_bench.engines.local import record_of, run_all

        record = record_of([self.path.name], submissions, settings)
        folder = RunFolder(self.path, record, resume=True)
        try:
            yield from run_all(submissions, settings, folder)
        finally:
            folder.close()

    def _file(self, problem: Problem, sample: int, what: str) -> Path:
        return self.path / f"level_{problem.level}_problem_{problem.id}_sample_{sample}_{what}"


def round_folder(path: Path, number: int, rounds: int) -> SampleFolder:
    """Return the folder of a round: the folder itself if there is one round only."""
    return SampleFolder(path / f"round_{number}" if rounds > 1 else path)


def open_folders(path: Path) -> list[SampleFolder]:
    """Return the folders of samples that a path stands for: its rounds in order, or itself.

    Raises:
        MissingFileError: it is no folder.
    """
    if not path.is_dir():
        raise MissingFileError(f"no folder {path}; name one with a model's samples or with a run's results")
    rounds = sorted(path.glob(f"round_*/{PLAN_FILE}"), key=lambda file: (len(file.parent.name), file.parent.name))
    return [SampleFolder(file.parent) for file in rounds] or [SampleFolder(path)]


def _decode(file: Path, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise MissingFileError(f"cannot read {file}: {error}; remove it to have it made again") from error


def _write(file: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    torn = file.with_name(f".{file.name}.torn")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torn.write_bytes(content)
        os.replace(torn, file)
    except OSError as error:
        raise MissingFileError(f"cannot write {file}: {error.strerror}") from error
