"""`dlrm-bench show PROBLEM`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from dlrm_bench.cli.options import ONE_PROBLEM, ProblemType, json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Size


@click.command("show", epilog=ONE_PROBLEM)
@click.argument("problem", type=ProblemType())
@click.option("--code", is_flag=True, help="Print the problem file and nothing else.")
@click.option("--data", is_flag=True, help="Draw inputs, and print their statistics and what a call costs.")
@click.option("--size", type=click.Choice(["full", "small"]), default="full", show_default=True, help="For --data.")
@click.option("--case", default="default", show_default=True, help="For --data.")
@json_option
def command(problem: Problem, code: bool, data: bool, size: Size, case: str, as_json: bool) -> None:
    """Show what PROBLEM computes, its sizes, its cases and its costs.

    One that comes without a card, such as KernelBench's, has one size, and its costs are not known.
    """
    if code:
        click.echo(problem.code, nl=False)
        return
    facts = _facts(problem)
    if data:
        facts.update(_drawn(problem, size, case))
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _facts(problem: Problem) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": problem.id, "name": problem.name, "hash": problem.hash}
    if problem.card is None:
        cases = [{"name": name} for name in problem.cases if name != DEFAULT_CASE]
        return facts | {"constants": {"full": problem.constants()}, "cases": cases}
    facts["constants"] = {"full": problem.constants(), "small": problem.constants("small")}
    return {**facts, **msgspec.to_builtins(problem.card)}


def _drawn(problem: Problem, size: Size, case: str) -> dict[str, Any]:
    import torch

    from dlrm_bench.correctness.oracle import Oracle
    from dlrm_bench.inputs import index_statistics
    from dlrm_bench.timing.costs import count_costs

    oracle = Oracle(problem, size, case, "bf16", torch.device("cpu"))
    oracle.rebuild(0)
    inputs, constants = oracle.named(oracle.draw_inputs(0)), problem.constants(size, case)
    output = oracle.model(*inputs.values())
    return {
        "drawn": {"size": size, "case": case, "precision": "bf16", "seed": 0},
        "inputs": {name: _describe(value) for name, value in inputs.items()},
        "index_statistics": msgspec.to_builtins(index_statistics(problem, constants, inputs)),
        "costs": msgspec.to_builtins(count_costs(problem, constants, inputs, oracle.model, output.nbytes)),
    }


def _describe(value: Any) -> str:
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _print(facts: dict[str, Any]) -> None:
    title = facts.get("title", "no card: judged on other values of the same shapes, timed beside eager and inductor")
    click.echo(f"{facts['id']} {facts['name']}: {title}")
    if "summary" in facts:
        click.echo(f"{facts['family']}, bound by {facts['bound']}; library baseline: {facts['library']}")
        click.echo(f"\n{facts['summary'].strip()}")
        click.echo(f"\nflops: {facts['flops']}")
    full, small = facts["constants"]["full"], facts["constants"].get("small")
    if full:
        click.echo("\nconstants" + (" " * 17 + "full -> small" if small else ""))
    for name, value in full.items():
        click.echo(f"  {name:22}  {value}" + (f" -> {small[name]}" if small and small[name] != value else ""))
    click.echo("\ncases beyond the default")
    for case in facts["cases"]:
        click.echo(f"  {case['name']:22}  {case.get('about', '')}".rstrip())
    if "sources" in facts:
        click.echo("\n".join(["\nsources", *(f"  {source}" for source in facts["sources"])]))
    for section in ("drawn", "inputs", "index_statistics", "costs"):
        if facts.get(section):
            click.echo(f"\n{section.replace('_', ' ')}")
            for name, value in facts[section].items():
                click.echo(f"  {name:22}  {value:,.6g}" if isinstance(value, float) else f"  {name:22}  {value}")
