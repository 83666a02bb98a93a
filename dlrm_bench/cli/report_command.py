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
    """Sum up RUN folders, or results.jsonl files: every result, and win rates and speedups over all problems.

    A RUN may also be one file of what `time --sweep --json` printed; then it is the sweep's table.
    """
    from dlrm_bench.report.summary import summarise
    from dlrm_bench.report.sweep import sweep_rows
    from dlrm_bench.report.text import markdown, provenance, result_rows, summary_rows
    from dlrm_bench.runs import read_results, read_sweep

    points = read_sweep(runs[0]) if len(runs) == 1 else []
    if points:
        results = [point.result for point in points]
        tables = [(*sweep_rows(points), f"{results[0].problem} over {points[0].constant}")]
    else:
        results = [result for run in runs for result in read_results(run)]
        tables = [(*result_rows(results), "Results"), (*summary_rows(results), "Summary")]
    if as_json or form == "json":
        print_json({"summaries": summarise(results), "results": results})
    elif form == "md":
        click.echo("\n\n".join(markdown(header, rows) for header, rows, _ in tables))
        click.echo("\n" + "\n".join(provenance(results)))
    else:
        for header, rows, title in tables:
            print_table(header, rows, title=title)
        click.echo("\n".join(provenance(results)))
