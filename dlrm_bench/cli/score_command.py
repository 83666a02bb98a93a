"""`dlrm-bench score DIR...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import json_option, make_settings, problems_option, run_options, timing_options
from dlrm_bench.cli.output import print_json, print_table
from dlrm_bench.cli.progress import progress_bars
from dlrm_bench.errors import SubmissionError

if TYPE_CHECKING:
    from dlrm_bench.interop.samples import SampleFolder
    from dlrm_bench.problems import ProblemSet
    from dlrm_bench.records import ModelScore, Result


@click.command("score")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@problems_option
@click.option("--trace", help="Trace, by file or workload, to project each model's fastest samples onto.")
@click.option("--force", is_flag=True, help="Project results of another GPU or precision, and say so.")
@timing_options("standard", ("none", "quick", "standard", "thorough"))
@run_options
@json_option
def command(
    folders: tuple[Path, ...],
    problems: ProblemSet,
    trace: str | None,
    force: bool,
    effort: str,
    baselines: str | None,
    warm: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Score models by their samples: one row for each DIR, or for each round in it.

    DIR is what `generate` wrote, KernelBench's runs/ folder of a model, or a run folder of `eval`. Samples that have no
    result yet are evaluated first, and their results are kept in DIR; the options on devices, limits and timing are for
    these. Rates are for one sample, averaged over problems, with 95% intervals by drawing problems again.
    """
    from dlrm_bench.interop.samples import open_folders
    from dlrm_bench.report.score import score_rows
    from dlrm_bench.report.text import provenance

    opened = [folder for path in folders for folder in open_folders(path)]
    for folder in opened:
        _evaluate_missing(folder, problems, {**options, "effort": effort, "baselines": baselines, "warm": warm})
    results = [_results(folder, problems) for folder in opened]
    scores = [_score(_name(folder), each, trace, force) for folder, each in zip(opened, results, strict=True)]
    if as_json:
        print_json(scores)
    else:
        print_table(*score_rows(scores), title="Models")
        click.echo("\n".join([*provenance([result for each in results for result in each]), *_projected(scores)]))


def _evaluate_missing(folder: SampleFolder, problems: ProblemSet, options: dict[str, Any]) -> None:
    missing = folder.missing(problems)
    if not missing:
        return
    settings = make_settings(**options, carded=any(problem.card for problem in problems))
    with progress_bars() as add_bar:
        evaluated = add_bar(f"evaluations of {folder.path.name}", len(missing))
        for _ in folder.evaluate(missing, settings):
            evaluated()


def _results(folder: SampleFolder, problems: ProblemSet) -> list[Result]:
    results = folder.results(problems)
    if not results:
        raise SubmissionError(
            f"nothing to score in {folder.path}: no samples named level_L_problem_P_sample_S_kernel.py, and no results"
        )
    return results


def _name(folder: SampleFolder) -> str:
    plan = folder.plan
    if plan is None:
        return folder.path.resolve().name
    return plan.model if plan.round == 1 else f"{plan.model}, round {plan.round}"


def _score(name: str, results: list[Result], trace: str | None, force: bool) -> ModelScore:
    from dlrm_bench.report.score import best_results, score

    if trace is None:
        return score(name, results)
    from dlrm_bench.projection.project import project
    from dlrm_bench.traces.load import find_trace, load_trace

    best = best_results(name, results)
    return score(name, results, project(load_trace(find_trace(trace)), best, submission=name, force=force))


def _projected(scores: list[ModelScore]) -> list[str]:
    """Return onto what models were projected, and what a reader should know before using these figures."""
    projections = [each.projection for each in scores if each.projection is not None]
    lines = [f"projected onto {each.workload} on {each.gpu}" for each in projections]
    lines += [f"note: {note}" for each in projections for note in [*each.forced, *each.warnings]]
    return list(dict.fromkeys(lines))
