"""`dlrm-bench time PROBLEM FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import ONE_PROBLEM, ProblemType, json_option, make_settings, run_options, timing_options
from dlrm_bench.cli.output import print_json, print_table
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Measurement

if TYPE_CHECKING:
    from dlrm_bench.evaluate import Settings
    from dlrm_bench.records import SweepPoint

SWEEP_NAMES = ("skew", "batch")


@click.command("time", epilog=ONE_PROBLEM)
@click.argument("problem", type=ProblemType())
@click.argument("file")
@click.option("--case", default=DEFAULT_CASE, show_default=True, help="Which case to time.")
@click.option("--sweep", type=click.Choice(SWEEP_NAMES), help="Time it over index skews or batches instead.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the sweep into this file.")
@timing_options("standard")
@run_options
@json_option
def command(
    problem: Problem,
    file: str,
    case: str,
    sweep: str | None,
    plot: Path | None,
    effort: str,
    baselines: str | None,
    warm: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Judge FILE as a solution of PROBLEM, then time it beside the baselines.

    FILE may also be baseline:eager, baseline:inductor, baseline:fbgemm, solution:triton or, for 4 and 5,
    solution:cuda.
    """
    from dlrm_bench.evaluate import evaluate
    from dlrm_bench.report.text import comparison_line, verdict_line
    from dlrm_bench.submissions import open_one

    problem.constants(case=case)
    carded = problem.card is not None
    settings = make_settings(**options, effort=effort, baselines=baselines, warm=warm, timed_case=case, carded=carded)
    if sweep is not None:
        return _sweep(sweep, problem, file, settings, plot, as_json)
    result = evaluate(open_one(file, problem), settings)
    if as_json:
        print_json(result)
    else:
        click.echo(verdict_line(result))
        if result.measurement is not None:
            click.echo(_time_line(result.measurement))
            for comparison in result.measurement.comparisons:
                click.echo(f"  {comparison_line(comparison)}")
    return 0 if result.correct else 1


def _sweep(name: str, problem: Problem, file: str, settings: Settings, plot: Path | None, as_json: bool) -> int:
    from dlrm_bench.engines.sweep import run_sweep
    from dlrm_bench.report.sweep import draw, sweep_rows
    from dlrm_bench.submissions import open_one

    points: list[SweepPoint] = []
    for point in run_sweep(name, problem, lambda variant: open_one(file, variant), settings):
        points.append(point)
        if as_json:
            print_json(point)
    if not as_json:
        print_table(*sweep_rows(points), title=f"{problem.name} over {points[0].constant}")
    if plot is not None:
        draw(points, problem.name, plot)
    return 0 if all(point.result.correct for point in points) else 1


def _time_line(measurement: Measurement) -> str:
    line = f"{measurement.median_us:.1f} us ({measurement.clock}, {'cold' if measurement.cold else 'warm'})"
    line += f", noise {measurement.noise:.2%}"
    if measurement.roofline is not None:
        line += f", {measurement.roofline.share:.0%} of the floor of {measurement.roofline.floor_us:.1f} us"
    if measurement.second_clock is not None and not measurement.second_clock.agrees:
        line += f"; the second clock says {measurement.second_clock.kernel_us:.1f} us: {measurement.second_clock.note}"
    return line
