"""`dlrm-bench check PROBLEM FILE`."""

from __future__ import annotations

from typing import Any

import click

from dlrm_bench.cli.options import ONE_PROBLEM, ProblemType, json_option, make_settings, run_options
from dlrm_bench.cli.output import print_json
from dlrm_bench.problems import Problem


@click.command("check", epilog=ONE_PROBLEM)
@click.argument("problem", type=ProblemType())
@click.argument("file")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given several times.")
@run_options
@json_option
def command(problem: Problem, file: str, cases: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Judge FILE, which defines ModelNew, as a solution of PROBLEM.

    FILE may also be baseline:eager, baseline:inductor, baseline:fbgemm, solution:triton or, for 4 and 5,
    solution:cuda.
    """
    from dlrm_bench.evaluate import evaluate
    from dlrm_bench.submissions import open_one

    for case in cases:
        problem.overrides(case=case)
    submission = open_one(file, problem)
    settings = make_settings(**options, cases=cases, carded=problem.card is not None)
    verdict = evaluate(submission, settings).verdict
    if as_json:
        print_json(verdict)
    else:
        passed = f"{len(verdict.metrics)} trials in {verdict.seconds:.1f} s"
        click.echo(f"{problem.name}: {verdict.status}" + (f" ({passed})" if verdict.correct else ""))
        for reason in verdict.reasons:
            click.echo(f"  {reason.message}")
        if verdict.correct:
            longest_first = sorted(verdict.spent, key=lambda each: -each.seconds)
            click.echo("  " + ", ".join(f"{each.case} {each.seconds:.1f} s" for each in longest_first))
    return 0 if verdict.correct else 1
