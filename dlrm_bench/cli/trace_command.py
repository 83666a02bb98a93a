"""`dlrm-bench trace FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json, print_table

policy_option = click.option(
    "--policy", default="paper", show_default=True, help="What is addressable: paper, covered or all_compute."
)


@click.command("trace")
@click.argument("file", metavar="FILE")
@policy_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the reduced trace: NAME.trace.json.gz.")
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@json_option
def command(file: str, policy: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Show the kernels in FILE by class, and how much of a step is addressable.

    FILE is what torch.profiler's export_chrome_trace writes, gzipped or not; or a reduced trace; or the name of a
    reference trace that ships with the package.
    """
    from dlrm_bench.report.trace import addressable_rows, class_rows, trace_lines
    from dlrm_bench.traces.load import find_trace, load_trace
    from dlrm_bench.traces.policies import find_policy
    from dlrm_bench.traces.store import check_output, write_trace
    from dlrm_bench.traces.summary import summarise

    find_policy(policy)
    if output is not None:
        check_output(output, force)
    trace = load_trace(find_trace(file))
    summary = summarise(trace, policy)
    if output is not None:
        write_trace(trace, output, force)
    if as_json:
        print_json(summary)
    else:
        print_table(*class_rows(summary), title="Kernels of a step")
        print_table(*addressable_rows(summary), title="Addressable")
        click.echo("\n".join(trace_lines(summary)))
