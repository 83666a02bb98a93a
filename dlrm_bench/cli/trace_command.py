"""`dlrm-bench trace FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json, print_table
from dlrm_bench.errors import UsageError

if TYPE_CHECKING:
    from dlrm_bench.records import TraceSummary

policy_option = click.option(
    "--policy", default="paper", show_default=True, help="What is addressable: paper, covered or all_compute."
)
format_option = click.option(
    "--format", "form", type=click.Choice(["text", "md"]), default="text", show_default=True, help="Of the tables."
)


@click.command("trace")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@policy_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the reduced trace: NAME.trace.json.gz.")
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@format_option
@json_option
def command(files: tuple[str, ...], policy: str, output: Path | None, force: bool, form: str, as_json: bool) -> None:
    """Show the kernels in FILE by class, and how much of a step is addressable; of several FILEs one line each.

    FILE is what torch.profiler's export_chrome_trace writes, gzipped or not; or a reduced trace; or the name of a
    reference trace that ships with the package. A reduced trace is classified anew by the rules of this release: with
    `-o FILE --force` it is kept so, and the index beside it, if there is one, is brought up to date.
    """
    from dlrm_bench.traces.load import find_trace, load_trace
    from dlrm_bench.traces.policies import find_policy
    from dlrm_bench.traces.store import check_output, refresh_index, write_trace
    from dlrm_bench.traces.summary import summarise

    find_policy(policy)
    if output is not None:
        if len(files) > 1:
            raise UsageError(f"-o writes one reduced trace, and {len(files)} files were given")
        check_output(output, force)
    traces = [load_trace(find_trace(file)) for file in files]
    summaries = [summarise(trace, policy) for trace in traces]
    if output is not None:
        write_trace(traces[0], output, force)
        refresh_index(output.parent)
    if as_json:
        print_json(summaries if len(files) > 1 else summaries[0])
    elif len(files) > 1:
        _print_workloads(summaries, form)
    else:
        _print_one(summaries[0], form)


def _print_one(summary: TraceSummary, form: str) -> None:
    from dlrm_bench.report.trace import addressable_rows, class_rows, trace_lines

    print_rows(*class_rows(summary), title="Kernels of a step", form=form)
    print_rows(*addressable_rows(summary), title="Addressable", form=form)
    click.echo("\n".join(trace_lines(summary)))


def _print_workloads(summaries: list[TraceSummary], form: str) -> None:
    from dlrm_bench.report.workloads import workload_rows

    print_rows(*workload_rows(summaries), title="Steps of workloads", form=form)


def print_rows(header: list[str], rows: list[list[str]], title: str, form: str) -> None:
    """Print a table for a terminal, or as Markdown without its title."""
    from dlrm_bench.report.text import markdown

    if form == "md":
        click.echo(markdown(header, rows) + "\n")
    else:
        print_table(header, rows, title)
