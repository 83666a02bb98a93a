"""`dlrm-bench list`."""

from __future__ import annotations

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.problems import load_problems


@click.command("list")
@json_option
def command(as_json: bool) -> None:
    """List the problems."""
    problems = load_problems()
    facts = [(problem.id, problem.name, problem.card) for problem in problems]
    if as_json:
        print_json(
            [
                {"id": number, "name": name, "family": card.family, "bound": card.bound, "title": card.title}
                for number, name, card in facts
                if card
            ]
        )
        return
    width = max(len(problem.name) for problem in problems)
    click.echo(f"{'id':>2}  {'name':{width}}  {'family':13}  {'bound':6}  title")
    for number, name, card in facts:
        if card:
            click.echo(f"{number:>2}  {name:{width}}  {card.family:13}  {card.bound:6}  {card.title}")
