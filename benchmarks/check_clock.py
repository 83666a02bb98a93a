"""Does the clock hold? Equal code in three children, several times over, and triton's do_bench on such calls.

    python benchmarks/check_clock.py solution:triton -o reference_traces/h200/clock.jsonl

Each line is one run of one problem: two of the children are measured as a submission and its control are, the third as
a baseline. `do_bench_us` is the median that `triton.testing.do_bench` gives for the same submission in this process,
over inputs drawn alike; it is run once a problem, and only on a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import click
import msgspec
import torch

from dlrm_bench.cli.options import make_settings
from dlrm_bench.correctness.bench import Bench
from dlrm_bench.correctness.judge import fresh_seed
from dlrm_bench.correctness.oracle import Oracle
from dlrm_bench.environment import describe
from dlrm_bench.evaluate import Settings
from dlrm_bench.precisions import DTYPES
from dlrm_bench.problems import DEFAULT_CASE, open_problems
from dlrm_bench.records import Environment, Measurement
from dlrm_bench.sandbox.child import ChildPool
from dlrm_bench.submissions import Submission, open_one
from dlrm_bench.timing.clock import measurement
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.race import Race

CHILDREN = ("submission", "control", "again")
SETS = 12


class ClockCheck(msgspec.Struct, frozen=True):
    """One run of one problem.

    Attributes:
        problem_id: which problem.
        submission: whose code ran in all three children.
        run: counts from 0.
        measurement: what the clock says; its one comparison is with the third child.
        do_bench_us: the median that `do_bench` gives, in the first run.
        environment: versions and device.
    """

    problem_id: int
    submission: str
    run: int
    measurement: Measurement
    do_bench_us: float | None
    environment: Environment


@click.command()
@click.argument("label")
@click.option("--problems", help="Comma-separated ids; all if left out.")
@click.option("--runs", default=3, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--device")
def main(label: str, problems: str | None, runs: int, output: Path, device: str | None) -> None:
    """Time LABEL (solution:triton, baseline:fbgemm, ...) against itself."""
    settings = make_settings(device, None, None, None, None, effort="standard")
    environment = describe(settings.device)
    with contextlib.closing(ChildPool(settings.device, settings.limits, len(CHILDREN))) as pool:
        for problem in open_problems(problems):
            entry = open_one(label, problem)
            for run in range(runs):
                timed = time_against_itself(entry, settings, pool)
                plain = None if run or settings.device.type != "cuda" else do_bench_us(entry, settings)
                line = ClockCheck(problem.id, label, run, timed, plain, environment)
                with output.open("ab") as file:
                    file.write(msgspec.json.encode(line) + b"\n")
                click.echo(summary(line))


def time_against_itself(entry: Submission, settings: Settings, pool: ChildPool) -> Measurement:
    """Race three children that run the same code."""
    race = Race(entry.problem, settings.size, DEFAULT_CASE, settings.precision, settings.device, settings.cold)
    contestants = [Contestant(name, Bench(pool.take(), race.case)) for name in CHILDREN]
    try:
        with ThreadPoolExecutor(len(CHILDREN)) as threads:
            list(threads.map(lambda each: enter(race, each, entry), contestants))
        pool.settle()
        calls = race.run(contestants, "standard", None)
        wrong = [each.reason.message for each in contestants if each.reason is not None]
        if wrong:
            raise click.ClickException(f"{entry.problem.name}: {wrong[0]}")
        submission, control, again = contestants
        return measurement(submission, control, [(again, "the same code")], race, "standard", calls, None)
    finally:
        for each in contestants:
            each.bench.child.close()


def enter(race: Race, contestant: Contestant, entry: Submission) -> None:
    """Load a submission into its child and have it judged and warmed up."""
    contestant.bench.child.load(entry.source)
    race.enter(contestant)


@torch.no_grad()
def do_bench_us(entry: Submission, settings: Settings) -> float:
    """Return what triton's own timer gives, in this process: the submission ships with the package."""
    from triton.testing import do_bench

    oracle = Oracle(entry.problem, settings.size, DEFAULT_CASE, settings.precision, settings.device)
    with tempfile.TemporaryDirectory() as folder:
        # Triton reads a kernel's text from its file.
        path = Path(folder, "submission.py")
        path.write_text(entry.source)
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with settings.device:
            torch.manual_seed(fresh_seed())
            model = module.ModelNew(*oracle.init_inputs)
        model = model.to(device=settings.device, dtype=DTYPES[settings.precision])
        sets = cycle([oracle.draw_inputs(fresh_seed()) for _ in range(SETS)])
        return 1e3 * float(do_bench(lambda: model(*next(sets)), warmup=50, rep=200, return_mode="median"))


def summary(line: ClockCheck) -> str:
    """Return one line for a person."""
    [again] = line.measurement.comparisons
    plain = "" if line.do_bench_us is None else f", do_bench {line.do_bench_us:.1f} us"
    control = line.measurement.control
    return (
        f"{line.problem_id:>2} run {line.run}: {line.measurement.median_us:.1f} us, control {control:.4f}, "
        f"again {again.speedup:.4f} ({again.low:.4f} to {again.high:.4f}) {again.outcome}{plain}"
    )


if __name__ == "__main__":
    main()
