"""`dlrm-bench eval SUBMISSIONS...`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import json_option, make_settings, problems_option, run_options, timing_options
from dlrm_bench.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlrm_bench.problems import ProblemSet
    from dlrm_bench.records import Result


@click.command("eval")
@click.argument("sources", nargs=-1, required=True, metavar="SUBMISSIONS...")
@problems_option
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Run folder to write.")
@click.option(
    "--ahead",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Problems whose baselines compile at the same time: with many cores and much memory.",
)
@click.option("--resume", is_flag=True, help="Do what is missing in the run folder.")
@timing_options("standard", ("none", "quick", "standard", "thorough"))
@run_options
@json_option
def command(
    sources: tuple[str, ...],
    problems: ProblemSet,
    output: Path | None,
    ahead: int,
    resume: bool,
    effort: str,
    baselines: str | None,
    warm: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge and time every submission, and sum up.

    SUBMISSIONS are files named ID_Name.py, folders of them, KernelBench runs/ folders, .jsonl files with a problem and
    a code a line, or baseline:NAME for that baseline on every problem.
    """
    from dlrm_bench.engines.local import record_of, run_all
    from dlrm_bench.report.text import result_rows, summary_rows
    from dlrm_bench.runs import RunFolder
    from dlrm_bench.submissions import open_submissions

    submissions = open_submissions(sources, problems)
    carded = any(problem.card is not None for problem in problems)
    settings = make_settings(**options, effort=effort, baselines=baselines, warm=warm, carded=carded)
    folder = RunFolder(output, record_of(sources, submissions, settings), resume) if output is not None else None
    results = []
    try:
        for result in _with_progress(run_all(submissions, settings, folder, ahead), len(submissions)):
            results.append(result)
            if as_json:
                print_json(result)
    except KeyboardInterrupt:
        kept = (
            f"{len(results)} results are in {output}, --resume does the rest" if output else "no run folder was given"
        )
        click.echo(f"interrupted after {len(results)} of {len(submissions)}: {kept}", err=True)
        raise
    finally:
        if folder is not None:
            folder.close()
    if not as_json:
        print_table(*result_rows(results), title="Results")
        print_table(*summary_rows(results), title="Summary")


def _with_progress(results: Iterator[Result], total: int) -> Iterator[Result]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from dlrm_bench.report.text import verdict_line

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("starting", total=total)
        for result in results:
            progress.update(task, advance=1, description=f"{result.submission} {verdict_line(result)}"[:80])
            yield result
