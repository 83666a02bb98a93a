"""Does the clock hold? Equal code in three children, several times over, and triton's do_bench on such calls.

    python -m benchmarks.check_clock run solution:triton -o reference_traces/h200/clock.jsonl
    python -m benchmarks.check_clock table reference_traces/h200/clock.jsonl
    python -m benchmarks.check_clock again reference_traces/h200/repeat_1.jsonl reference_traces/h200/repeat_2.jsonl

Each line is one run of one problem: two of the children are measured as a submission and its control are, the third as
a baseline. In the first run, on a GPU, the same calls on the same inputs are timed in a child by the clock and in this
process by `triton.testing.do_bench`, and the card's clock and what slows it are read meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, groupby
from pathlib import Path
from statistics import median

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
from dlrm_bench.records import Environment, Measurement, Result
from dlrm_bench.runs import read_results
from dlrm_bench.sandbox.child import ChildPool
from dlrm_bench.submissions import Submission, open_one
from dlrm_bench.timing.clock import measurement
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.device import ClockCosts
from dlrm_bench.timing.race import Race
from dlrm_bench.timing.telemetry import open_sensors

CHILDREN = ("submission", "control", "again")
SETS = 12
BLOCKS = 12
HELD_US = 20_000.0
REST_S = 0.05
NEAR = 0.005


class SameCalls(msgspec.Struct, frozen=True):
    """One submission, the same sets of inputs in turn, two timers in turn.

    Attributes:
        clock_us: median over the calls of several blocks, by the events in a child.
        do_bench_us: median over the calls of `triton.testing.do_bench`, asked for as long between the blocks.
        clock_mhz: lowest clock of the multiprocessors seen during the blocks.
        do_bench_mhz: lowest one seen during `do_bench`.
        host_us: time of a call in a row by the host's clock, which `do_bench` waits for.
    """

    clock_us: float
    do_bench_us: float
    clock_mhz: int
    do_bench_mhz: int
    host_us: float


class ClockCheck(msgspec.Struct, frozen=True):
    """One run of one problem.

    Attributes:
        problem_id: which problem.
        submission: whose code ran in all three children.
        run: counts from 0.
        measurement: what the clock says; its one comparison is with the third child.
        same_calls: the clock beside `do_bench`, in the first run.
        environment: versions and device.
    """

    problem_id: int
    submission: str
    run: int
    measurement: Measurement
    same_calls: SameCalls | None
    environment: Environment


@click.group()
def main() -> None:
    """Check the clock, and show what a check said."""


@main.command("run")
@click.argument("label")
@click.option("--problems", help="Comma-separated ids; all if left out.")
@click.option("--runs", default=3, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--device")
def run_command(label: str, problems: str | None, runs: int, output: Path, device: str | None) -> None:
    """Time LABEL (solution:triton, baseline:fbgemm, ...) against itself."""
    settings = make_settings(device, None, None, None, None, effort="standard")
    environment = describe(settings.device)
    with contextlib.closing(ChildPool(settings.device, settings.limits, len(CHILDREN))) as pool:
        for problem in open_problems(problems):
            entry = open_one(label, problem)
            for run in range(runs):
                timed = time_against_itself(entry, settings, pool)
                alike = None if run or settings.device.type != "cuda" else same_calls(entry, settings, pool, timed)
                line = ClockCheck(problem.id, label, run, timed, alike, environment)
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
def same_calls(entry: Submission, settings: Settings, pool: ChildPool, timed: Measurement) -> SameCalls:
    """Time a submission that ships with the package by the clock and by `do_bench`, on the same inputs."""
    from triton.testing import do_bench

    oracle = Oracle(entry.problem, settings.size, DEFAULT_CASE, settings.precision, settings.device)
    sets = [oracle.draw_inputs(fresh_seed()) for _ in range(SETS)]
    seed, costs = fresh_seed(), ClockCosts.on(settings.device, settings.cold)
    model = build_here(entry, oracle, seed, settings)
    turn = cycle(sets)
    blocks: list[float] = []
    plain_ms: list[float] = []
    clock_mhz: list[int] = []
    do_bench_mhz: list[int] = []
    with contextlib.closing(pool.take()) as child:
        child.load(entry.source)
        child.build(oracle.init_inputs, seed, settings.precision)
        bench = Bench(child, DEFAULT_CASE)
        bench.time(sets, SETS)
        hold_cycles = int(HELD_US * costs.cycles_per_us)
        do_bench(lambda: model(*next(turn)), rep=1)
        # In turn, a block's length each and after the same rest: a card under load lowers its clock within 50 ms.
        for _ in range(BLOCKS):
            time.sleep(REST_S)
            with clock_read(settings.device, clock_mhz):
                blocks += bench.time(sets, SETS, costs.flush_bytes, hold_cycles).times_us
            time.sleep(REST_S)
            block_ms = SETS * (median(blocks) + costs.flush_us) / 1e3
            with clock_read(settings.device, do_bench_mhz):
                plain_ms += do_bench(lambda: model(*next(turn)), warmup=1, rep=block_ms, return_mode="all")
    return SameCalls(median(blocks), 1e3 * median(plain_ms), min(clock_mhz), min(do_bench_mhz), timed.host_us or 0.0)


def build_here(entry: Submission, oracle: Oracle, seed: int, settings: Settings) -> torch.nn.Module:
    """Build a submission in this process."""
    with tempfile.TemporaryDirectory() as folder:
        # Triton reads a kernel's text from its file.
        path = Path(folder, "submission.py")
        path.write_text(entry.source)
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    with settings.device:
        torch.manual_seed(seed)
        model: torch.nn.Module = module.ModelNew(*oracle.init_inputs)
    return model.to(device=settings.device, dtype=DTYPES[settings.precision])


@contextlib.contextmanager
def clock_read(device: torch.device, seen: list[int]) -> Iterator[None]:
    """Read the clock of the multiprocessors every few milliseconds while it lasts, in MHz; 0 if it cannot be read."""
    done = threading.Event()
    with open_sensors(device) as sensors:

        def watch() -> None:
            while not done.is_set():
                seen.append(sensors.telemetry().after.sm_clock_mhz if sensors is not None else 0)
                done.wait(0.005)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@main.command("table")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def table_command(file: Path) -> None:
    """Print what a check said, as Markdown."""
    lines = [msgspec.json.decode(line, type=ClockCheck) for line in file.read_bytes().splitlines()]
    click.echo("\n".join(table_of(lines)))


def table_of(lines: Sequence[ClockCheck]) -> list[str]:
    """Return a table with a row a problem, and a line that counts the equal pairs."""
    rows = ["| problem | farthest equal pair | the same calls us | do_bench us | apart | at MHz | host us a call |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for number, same in groupby(lines, key=lambda line: line.problem_id):
        runs = list(same)
        farthest = max((ratio for run in runs for ratio in ratios_of(run)), key=lambda ratio: abs(ratio - 1))
        [alike] = [run.same_calls for run in runs if run.same_calls is not None]
        apart = alike.do_bench_us / alike.clock_us - 1
        rows.append(
            f"| {number} | {farthest:.4f} | {alike.clock_us:.1f} | {alike.do_bench_us:.1f} | {apart:+.1%} "
            f"| {alike.clock_mhz}, {alike.do_bench_mhz} | {alike.host_us:.0f} |"
        )
    ratios = [ratio for line in lines for ratio in ratios_of(line)]
    called = sum(line.measurement.comparisons[0].outcome != "tie" for line in lines)
    near = sum(abs(ratio - 1) <= NEAR for ratio in ratios)
    rows += [
        "",
        f"{near} of {len(ratios)} equal pairs within {NEAR:.1%} of 1, {called} of {len(lines)} called a win or loss",
    ]
    return rows


@main.command("again")
@click.argument("first", type=click.Path(path_type=Path, exists=True))
@click.argument("second", type=click.Path(path_type=Path, exists=True))
def again_command(first: Path, second: Path) -> None:
    """Hold two runs of the same submissions against each other, as Markdown."""
    click.echo("\n".join(repeats_of(read_results(first), read_results(second))))


def repeats_of(first: Sequence[Result], second: Sequence[Result]) -> list[str]:
    """Return a table with a row a problem that both runs timed, and a line that counts overlapping intervals."""
    rows = ["| problem | us | again us | ratios apart | intervals overlap |", "| --- | --- | --- | --- | --- |"]
    later = {each.problem_hash + each.submission_hash: each.measurement for each in second}
    overlaps = []
    for result in first:
        one, other = result.measurement, later.get(result.problem_hash + result.submission_hash)
        if one is None or other is None:
            continue
        pairs = [pair for pair in zip(one.comparisons, other.comparisons, strict=True) if pair[0].speedup is not None]
        common = [max(each.low for each in pair) <= min(each.high for each in pair) for pair in pairs]
        apart = max(abs(before.speedup / after.speedup - 1) for before, after in pairs)
        overlaps.append(all(common))
        rows.append(
            f"| {result.problem_id} | {one.median_us:.1f} | {other.median_us:.1f} | {apart:.1%} "
            f"| {sum(common)} of {len(common)} |"
        )
    if not overlaps:
        raise click.ClickException("the two runs timed nothing in common")
    return [*rows, "", f"all intervals of a problem overlap in {sum(overlaps)} of {len(overlaps)}"]


def ratios_of(line: ClockCheck) -> list[float]:
    """Return the ratios of equal code in a run: with the control, and with the third child."""
    [again] = line.measurement.comparisons
    assert line.measurement.control is not None
    assert again.speedup is not None
    return [line.measurement.control, again.speedup]


def summary(line: ClockCheck) -> str:
    """Return one line for a person."""
    [again] = line.measurement.comparisons
    alike = line.same_calls
    plain = "" if alike is None else f"; same calls {alike.clock_us:.1f} us, do_bench {alike.do_bench_us:.1f} us"
    control = line.measurement.control
    return (
        f"{line.problem_id:>2} run {line.run}: {line.measurement.median_us:.1f} us, control {control:.4f}, "
        f"again {again.speedup:.4f} ({again.low:.4f} to {again.high:.4f}) {again.outcome}{plain}"
    )


if __name__ == "__main__":
    main()
