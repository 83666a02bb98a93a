"""`dlrm-bench time PROBLEM FILE`."""

from __future__ import annotations

from typing import Any

import click

from dlrm_bench.cli.options import ProblemType, json_option, make_settings, run_options, timing_options
from dlrm_bench.cli.output import print_json
from dlrm_bench.problems import Problem
from dlrm_bench.records import Measurement


@click.command("time")
@click.argument("problem", type=ProblemType())
@click.argument("file")
@timing_options("standard")
@run_options
@json_option
def command(problem: Problem, file: str, effort: str, baselines: str, as_json: bool, **options: Any) -> int:
    """Judge FILE as a solution of PROBLEM, then time it beside the baselines.

    FILE may also be baseline:eager, baseline:inductor or baseline:fbgemm.
    """
    from dlrm_bench.evaluate import evaluate
    from dlrm_bench.report.text import comparison_line, verdict_line
    from dlrm_bench.submissions import open_one

    settings = make_settings(**options, effort=effort, baselines=baselines)
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


def _time_line(measurement: Measurement) -> str:
    line = f"{measurement.median_us:.1f} us ({measurement.clock}, {'cold' if measurement.cold else 'warm'})"
    line += f", noise {measurement.noise:.2%}"
    if measurement.roofline is not None:
        line += f", {measurement.roofline.share:.0%} of the floor of {measurement.roofline.floor_us:.1f} us"
    return line
