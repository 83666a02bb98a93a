"""`dlrm-bench project TRACE`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.cli.trace_command import format_option, policy_option, print_rows
from dlrm_bench.errors import UsageError

if TYPE_CHECKING:
    from dlrm_bench.records import Splice


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
@click.option(
    "--measured",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What `splice --json` printed, one a line: projected beside measured, of TRACE or of all reference traces.",
)
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --measured: draw that, and the reference traces by class, into a new .svg, .png or .pdf.",
)
@format_option
@json_option
def command(
    trace: str | None,
    results: Path | None,
    submission: str | None,
    policy: str,
    fallback: bool,
    force: bool,
    paper: tuple[float, float, float] | None,
    measured: Path | None,
    figure: Path | None,
    form: str,
    as_json: bool,
) -> None:
    """Project what results would do to the workload of TRACE: a file, or the name of a reference trace.

    Each kernel is held against the result of the problem that stands for it, beside the baseline that the trace ran.
    """
    from dlrm_bench.projection.paper import paper_saving
    from dlrm_bench.report.trace import saving_line

    if figure is not None and measured is None:
        raise UsageError("--figure draws projected against measured; name the splices with --measured")
    if paper is not None:
        if trace is not None or results is not None or measured is not None:
            raise UsageError("--paper takes its numbers by hand; leave TRACE, --results and --measured out")
        saving = paper_saving(*paper)
        print_json(saving) if as_json else click.echo(saving_line(saving))
    elif measured is not None:
        if submission is not None or fallback or force:
            raise UsageError(
                "--measured takes what was put in, as it is; leave --submission, --fallback and --force out"
            )
        _beside(trace, results, policy, measured, figure, form, as_json)
    elif trace is None:
        raise UsageError("project what? Name a TRACE, or give the numbers with --paper F W S")
    else:
        _project(trace, results, submission, policy, fallback, force, form, as_json)


def _project(
    name: str,
    results: Path | None,
    submission: str | None,
    policy: str,
    fallback: bool,
    force: bool,
    form: str,
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
    print_rows(*match_rows(projection), title="What stands for what", form=form)
    print_rows(*saving_rows(projection), title="Projected", form=form)
    click.echo("\n".join(projection_lines(projection)))


def _beside(
    name: str | None, results: Path | None, policy: str, measured: Path, figure: Path | None, form: str, as_json: bool
) -> None:
    from dlrm_bench.projection.measured import project_spliced, read_splices
    from dlrm_bench.report.workloads import measured_rows
    from dlrm_bench.runs import read_results
    from dlrm_bench.traces.load import find_trace, load_trace, reference_results

    splices = read_splices(measured)
    if name is not None:
        workload = load_trace(find_trace(name)).workload
        splices = [each for each in splices if each.workload == workload]
        if not splices:
            raise UsageError(f"{measured} holds no splice of {workload}")
    done = [
        project_spliced(
            each,
            load_trace(find_trace(name or each.workload)),
            read_results(results or reference_results(each.environment.device)),
            policy,
        )
        for each in splices
    ]
    if figure is not None:
        _draw(done, policy, figure)
    if as_json:
        print_json(done)
    else:
        print_rows(*measured_rows(done), title="Time saved", form=form)


def _draw(splices: list[Splice], policy: str, figure: Path) -> None:
    from dlrm_bench.report.figure import draw_figure
    from dlrm_bench.traces.load import load_trace, reference_traces
    from dlrm_bench.traces.summary import summarise

    traces = [load_trace(path) for path in reference_traces(splices[0].environment.device)]
    draw_figure([summarise(trace, policy) for trace in traces], [each for each in splices if each.times], figure)
