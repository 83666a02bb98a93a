"""What KernelBench's own evaluator says of the problems: its sources unmodified, of commit 423217d.

    python benchmarks/kernelbench.py run CHECKOUT -o reference_traces/h200/kernelbench.jsonl
    python benchmarks/kernelbench.py table reference_traces/h200/kernelbench.jsonl

`run` needs a GPU, a checkout of https://github.com/ScalingIntelligence/KernelBench at that commit, and what its package
imports: pydantic, requests, tqdm, python-dotenv, openai and litellm. An evaluation uses none of the last three.

Each problem is evaluated with the reference as `ModelNew` (backend cuda) and with the Triton solution (backend triton),
in fp32 and in bf16, and the first problem also with two cheats in fp32. Each evaluation has a process of its own, and
becomes a line of JSON. Times are the evaluator's, in milliseconds. Several workers (an H200's memory is enough for six)
share the GPU, and then the times are for orientation only.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec
import torch

from dlrm_bench.problems import Problem, open_problems
from dlrm_bench.report.text import markdown
from dlrm_bench.submissions import baseline, solution

COMMIT = "423217d"
EVALUATOR = "b42ce1268ec64ee7274db307ab98945c1e868792b54689554014b28c41787ee6"
"""SHA-256 of src/kernelbench/eval.py of that commit."""
IMPORTED = ("pydantic", "requests", "tqdm", "dotenv", "openai", "litellm")
PRECISIONS = ("fp32", "bf16")
CANDIDATES = ("reference", "triton", "constants", "counter")
TRIALS, TIMED_CALLS = 2, 10
CHEATED = 1
CONSTANTS = """import torch
from torch import nn

BATCH = 0


class ModelNew(nn.Module):
    def __init__(self, rows, dim, weight_scale):
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(dim))

    def forward(self, indices, offsets):
        return self.zero.repeat(offsets.numel() - 1, 1)
"""
COUNTER = """import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows, dim, weight_scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.calls = 0

    def forward(self, indices, offsets):
        self.calls += 1
        if self.calls <= 5:
            self.last = F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)
        return self.last
"""


class Said(msgspec.Struct, frozen=True):
    """What counts of the evaluator's answer, times in milliseconds and -1 where there is none."""

    compiled: bool
    correctness: bool
    metadata: dict[str, Any]
    runtime: float
    ref_runtime: float


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One evaluation.

    Attributes:
        problem_id: which problem.
        problem: its name.
        problem_hash: SHA-256 of its text.
        candidate: `reference`, `triton`, or a cheat: `constants` or `counter`.
        candidate_hash: SHA-256 of the candidate's text.
        precision: what the evaluator cast everything to.
        backend: the evaluator's name for how it loads a candidate.
        evaluator: SHA-256 of the evaluator's file.
        commit: of KernelBench.
        torch: its version.
        workers: how many evaluations shared the GPU.
        said: the evaluator's answer, if it gave one.
        seconds: for the evaluation as a whole.
        raised: what it raised, or how its process ended, instead of an answer.
    """

    problem_id: int
    problem: str
    problem_hash: str
    candidate: str
    candidate_hash: str
    precision: str
    backend: str
    evaluator: str
    commit: str
    torch: str
    workers: int
    said: Any
    seconds: float
    raised: str | None = None

    @property
    def answer(self) -> Said | None:
        """What the evaluator said."""
        return None if self.said is None else msgspec.convert(self.said, Said)


@dataclass(frozen=True)
class Job:
    """What to evaluate."""

    problem: Problem
    candidate: str
    backend: str
    source: str
    precision: str


@click.group()
def main() -> None:
    """Run KernelBench's evaluator on the problems, and show what it said."""


@main.command("run")
@click.argument("checkout", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--problems", help="Comma-separated ids; all if left out.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Evaluations at a time.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New file.")
def run_command(checkout: Path, problems: str | None, workers: int, output: Path) -> None:
    """Evaluate every candidate of every problem by the evaluator in CHECKOUT."""
    file = checkout / "src" / "kernelbench" / "eval.py"
    if not file.exists() or _hash(file.read_bytes()) != EVALUATOR:
        raise click.ClickException(
            f"{file} is not KernelBench's of commit {COMMIT}: git -C {checkout} checkout {COMMIT}"
        )
    missing = [name for name in IMPORTED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f"KernelBench imports {', '.join(missing)}, which is not installed")
    if not torch.cuda.is_available():
        raise click.ClickException("KernelBench's evaluator needs a GPU, and torch sees none")
    if output.exists():
        raise click.ClickException(f"{output} is there already; name another file")
    jobs = [
        job for problem in open_problems(problems) for precision in PRECISIONS for job in jobs_of(problem, precision)
    ]
    lines = []
    with ThreadPoolExecutor(workers) as threads:
        for line in threads.map(lambda job: in_a_process(job, checkout / "src", workers), jobs):
            lines.append(line)
            with output.open("ab") as stream:
                stream.write(msgspec.json.encode(line, enc_hook=str) + b"\n")
            click.echo(f"{line.problem_id} {line.problem} {line.candidate} {line.precision}: {verdict(line)}", err=True)
    click.echo(table(lines))


def jobs_of(problem: Problem, precision: str) -> list[Job]:
    """Return what there is to evaluate of a problem in a precision."""
    candidates = {
        "reference": ("cuda", baseline("eager", problem).source),
        "triton": ("triton", solution("triton", problem).source),
    }
    if problem.id == CHEATED and precision == "fp32":
        # One sets the constants that the problem draws its inputs by, the other computes nothing after its fifth call.
        candidates |= {"constants": ("cuda", CONSTANTS), "counter": ("triton", COUNTER)}
    return [Job(problem, name, backend, source, precision) for name, (backend, source) in candidates.items()]


def in_a_process(job: Job, sources: Path, workers: int) -> Evaluation:
    """Evaluate in a process of its own, which an evaluation may take down."""
    start = time.monotonic()
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            said, raised = process.submit(evaluate, job, sources).result(), None
    except BrokenProcessPool:
        said, raised = None, "its process ended"
    except Exception as error:
        said, raised = None, f"{type(error).__name__}: {error}"[:500]
    return Evaluation(
        problem_id=job.problem.id,
        problem=job.problem.name,
        problem_hash=job.problem.hash,
        candidate=job.candidate,
        candidate_hash=_hash(job.source.encode()),
        precision=job.precision,
        backend=job.backend,
        evaluator=EVALUATOR,
        commit=COMMIT,
        torch=torch.__version__,
        workers=workers,
        said=said,
        seconds=round(time.monotonic() - start, 1),
        raised=raised,
    )


def evaluate(job: Job, sources: Path) -> Any:
    """Return what the evaluator says, as plain data."""
    # In front of this file's own folder, where this file has the package's name.
    sys.path.insert(0, str(sources))
    evaluator = importlib.import_module("kernelbench.eval")

    said = evaluator.eval_kernel_against_ref(
        job.problem.code,
        job.source,
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED_CALLS,
        measure_performance=True,
        device=torch.device("cuda:0"),
        backend=job.backend,
        precision=evaluator.get_torch_dtype_from_string(job.precision),
    )
    return None if said is None else msgspec.to_builtins(said.model_dump(), enc_hook=str)


@main.command("table")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def table_command(file: Path) -> None:
    """Print what FILE says, as Markdown."""
    click.echo(table(read(file)))


def read(file: Path) -> list[Evaluation]:
    """Read a record."""
    return [msgspec.json.decode(line, type=Evaluation) for line in file.read_bytes().splitlines()]


def table(lines: Sequence[Evaluation]) -> str:
    """Return a table with a row a problem and candidate, and a line that counts."""
    ordered = sorted(lines, key=_row)
    rows = []
    for (number, _), same in groupby(ordered, key=_row):
        by_precision = {line.precision: line for line in same}
        first = next(iter(by_precision.values()))
        cells = [verdict(by_precision[name]) if name in by_precision else "-" for name in PRECISIONS]
        rows.append([f"{number} {first.problem}", first.candidate, *cells])
    right = {each: sum(_correct(line) for line in lines if _is_cheat(line) == each) for each in (False, True)}
    cheats = sum(map(_is_cheat, lines))
    made_in = sorted({_made_in(line) for line in lines})
    return "\n".join(
        [
            markdown(["problem", "candidate", *PRECISIONS], rows),
            "",
            f"{right[False]} of {len(lines) - cheats} correct, and {right[True]} of {cheats} cheats; "
            + "; ".join(made_in),
        ]
    )


def verdict(line: Evaluation) -> str:
    """Return a verdict in a few words: with the candidate's and the reference's time, or the difference."""
    said = line.answer
    if said is None:
        return f"no answer: {line.raised}"
    if not said.correctness:
        differences = said.metadata.get("max_difference")
        return f"wrong by {max(map(float, differences)):g}" if differences else "wrong" if said.compiled else "no build"
    flagged = ", flagged" if said.metadata.get("excessive_speedup") else ""
    return f"correct, {said.runtime:.3g} of {said.ref_runtime:.3g} ms{flagged}"


def _correct(line: Evaluation) -> bool:
    return line.answer is not None and line.answer.correctness


def _is_cheat(line: Evaluation) -> bool:
    return line.candidate in CANDIDATES[2:]


def _row(line: Evaluation) -> tuple[int, int]:
    return line.problem_id, CANDIDATES.index(line.candidate)


def _made_in(line: Evaluation) -> str:
    hardware = line.answer.metadata.get("hardware", "-") if line.answer else "-"
    return f"{hardware}, torch {line.torch}, {line.workers} at a time"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
