"""`dlrm-bench report RUN...`."""

from __future__ import annotations

from pathlib import Path

import click

from dlrm_bench.cli.output import print_json, print_table


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--format", "form", type=click.Choice(["text", "md", "json"]), default="text", show_default=True, help="How."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(runs: tuple[Path, ...], form: str, as_json: bool) -> None:
    """Sum up RUN folders, or results.jsonl files: every result, and win rates and speedups over all problems."""
    from dlrm_bench.report.summary import summarise
    from dlrm_bench.report.text import markdown, provenance, result_rows, summary_rows
    from dlrm_bench.runs import read_results

    results = [result for run in runs for result in read_results(run)]
    if as_json or form == "json":
        print_json({"summaries": summarise(results), "results": results})
    elif form == "md":
        click.echo(markdown(*result_rows(results)) + "\n\n" + markdown(*summary_rows(results)))
        click.echo("\n" + "\n".join(provenance(results)))
    else:
        print_table(*result_rows(results), title="Results")
        print_table(*summary_rows(results), title="Summary")
        click.echo("\n".join(provenance(results)))
