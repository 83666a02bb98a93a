"""`dlrm-bench audit [PROBLEMS]`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from dlrm_bench.cli.options import GIB, PLACES, json_option
from dlrm_bench.cli.output import print_json, print_table
from dlrm_bench.problems import open_problems
from dlrm_bench.records import Audit, Precision, Size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlrm_bench.records import AuditRow


@click.command("audit", epilog=f"PROBLEMS are {PLACES}; all the bundled ones if left out.")
@click.argument("problems", required=False)
@click.option(
    "--level", type=click.IntRange(min=1), default=1, show_default=True, help="Of another place, unless it says so."
)
@click.option("--device", help="cpu, cuda or cuda:N; the first GPU if there is one.")
@click.option("--size", type=click.Choice(get_args(Size)), help="Of bundled problems: full on a GPU, small on a CPU.")
@click.option("--precision", type=click.Choice(get_args(Precision)), help="bf16 on a GPU, fp32 on a CPU.")
@click.option("--timeout", type=click.FloatRange(min=1), default=60, show_default=True, help="Seconds for one problem.")
@click.option("--memory", type=click.FloatRange(min=0.1), help="GiB for one problem; half of a CPU's, 90% of a GPU's.")
@json_option
def command(
    problems: str | None,
    level: int,
    device: str | None,
    size: Size | None,
    precision: Precision | None,
    timeout: float,
    memory: float | None,
    as_json: bool,
) -> None:
    """Find problems that an output without any computing passes.

    Zeros, a copy of an input, the right output for other inputs (stale) and that output's mean are each held against
    torch.allclose as KernelBench calls it, and against this judge; `closest` is the largest share of elements that one
    of them gets within allclose's tolerance.
    """
    from dlrm_bench.correctness.audit import AuditSettings, audit, summarise
    from dlrm_bench.environment import default_precision, default_size, open_device
    from dlrm_bench.report.text import audit_lines, audit_rows

    chosen, where = open_problems(problems, level), open_device(device)
    settings = AuditSettings(
        device=where,
        size=size or (default_size(where) if all(problem.card for problem in chosen) else "full"),
        precision=precision or default_precision(where),
        memory_bytes=int(memory * GIB) if memory is not None else _default_memory(where),
        seconds=timeout,
    )
    for problem in chosen:
        problem.overrides(settings.size)
    rows, interrupted = _until_interrupted(_with_progress(audit(chosen, settings), len(chosen)))
    summary = summarise(rows, settings.precision)
    if as_json:
        print_json(Audit(rows, summary))
    else:
        print_table(*audit_rows(rows), title="What passes torch.allclose / this judge")
        click.echo("\n".join(audit_lines(summary)))
    if interrupted:
        raise KeyboardInterrupt


def _default_memory(device: Any) -> int:
    if device.type == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory * 0.9)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _until_interrupted(rows: Iterator[AuditRow]) -> tuple[list[AuditRow], bool]:
    """Return the rows, and whether somebody lost patience: what has been audited by then is not lost."""
    done: list[AuditRow] = []
    try:
        for row in rows:
            done.append(row)
    except KeyboardInterrupt:
        return done, True
    return done, False


def _with_progress(rows: Iterator[AuditRow], total: int) -> Iterator[AuditRow]:
    from rich.console import Console
    from rich.progress import track

    shown = not sys.stderr.isatty()
    yield from track(rows, "auditing", total, console=Console(stderr=True), transient=True, disable=shown)
