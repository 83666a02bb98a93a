"""`dlrm-bench project TRACE`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json, print_table
from dlrm_bench.cli.trace_command import policy_option
from dlrm_bench.errors import UsageError


class NumberType(click.ParamType[float]):
    """A number, also as a fraction: 5/12."""

    name = "number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Read the number."""
        try:
            return float(Fraction(str(value)))
        except (ValueError, ZeroDivisionError, OverflowError):
            self.fail(f"{value!r} is no number; 0.5 or 5/12", parameter, context)


@click.command("project")
@click.argument("trace", required=False, metavar="[TRACE]")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="A run folder or results.jsonl; the reference results of the trace's GPU if left out.",
)
@click.option("--submission", metavar="LABEL", help="Whose results; the only one that is no baseline if left out.")
@policy_option
@click.option("--fallback", is_flag=True, help="Leave kernels as they are where the submission loses.")
@click.option("--force", is_flag=True, help="Take results of another GPU or precision, and say so.")
@click.option(
    "--paper",
    nargs=3,
    type=NumberType(),
    metavar="F W S",
    help="The paper's formula alone, by hand: addressable share, win rate, median speedup; 0.582 5/12 1.552.",
)
@json_option
def command(
    trace: str | None,
    results: Path | None,
    submission: str | None,
    policy: str,
    fallback: bool,
    force: bool,
    paper: tuple[float, float, float] | None,
    as_json: bool,
) -> None:
    """Project what results would do to the workload of TRACE: a file, or the name of a reference trace.

    Each kernel is held against the result of the problem that stands for it, beside the baseline that the trace ran.
    """
    from dlrm_bench.projection.paper import paper_saving
    from dlrm_bench.report.trace import saving_line

    if paper is not None:
        if trace is not None or results is not None:
            raise UsageError("--paper takes its numbers by hand; leave TRACE and --results out")
        saving = paper_saving(*paper)
        print_json(saving) if as_json else click.echo(saving_line(saving))
    elif trace is None:
        raise UsageError("project what? Name a TRACE, or give the numbers with --paper F W S")
    else:
        _project(trace, results, submission, policy, fallback, force, as_json)


def _project(
    name: str,
    results: Path | None,
    submission: str | None,
    policy: str,
    fallback: bool,
    force: bool,
    as_json: bool,
) -> None:
    from dlrm_bench.projection.project import project
    from dlrm_bench.report.trace import match_rows, projection_lines, saving_rows
    from dlrm_bench.runs import read_results
    from dlrm_bench.traces.load import find_trace, load_trace, reference_results

    trace = load_trace(find_trace(name))
    found = read_results(results or reference_results(trace.provenance.gpu))
    projection = project(trace, found, submission=submission, policy=policy, fallback=fallback, force=force)
    if as_json:
        print_json(projection)
        return
    print_table(*match_rows(projection), title="What stands for what")
    print_table(*saving_rows(projection), title="Projected")
    click.echo("\n".join(projection_lines(projection)))
