"""`dlrm-bench profile WORKLOAD`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.errors import UsageError
from dlrm_bench.workloads.registry import MODULES, RECOMMENDERS


@click.command("profile", epilog=f"WORKLOAD is one of {', '.join(MODULES)}.")
@click.argument("workload", metavar="WORKLOAD")
@click.option(
    "--build",
    type=click.Choice(["eager", "fused"]),
    default="eager",
    show_default=True,
    help=f"Of {' and '.join(RECOMMENDERS)}: an nn.EmbeddingBag a table, or fbgemm's table-batched one in torchrec.",
)
@click.option("--tiny", is_flag=True, help="A configuration of a few thousand weights.")
@click.option("--device", help="cuda or cuda:N; the first GPU if left out.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("traces"),
    show_default=True,
    help="Folder for the trace and the index of all traces in it.",
)
@click.option("--force", is_flag=True, help="Overwrite a trace of the same name.")
@json_option
def command(
    workload: str, build: Any, tiny: bool, device: str | None, output: Path, force: bool, as_json: bool
) -> None:
    """Profile a step of WORKLOAD on a GPU and write its reduced trace, WORKLOAD.trace.json.gz.

    A recommender's build is a part of the name. Weights are random, and nothing is downloaded.
    """
    from dlrm_bench.environment import open_device
    from dlrm_bench.traces.capture import take_trace
    from dlrm_bench.traces.store import SUFFIX, write_index, write_trace
    from dlrm_bench.workloads.registry import open_workload

    chosen = open_workload(workload)
    path = output / f"{chosen.label(build)}{SUFFIX}"
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; --force overwrites it")
    trace = take_trace(chosen, build, open_device(device), tiny=tiny)
    output.mkdir(parents=True, exist_ok=True)
    write_trace(trace, path, force)
    entry = next(each for each in write_index(output).traces if each.file == path.name)
    if as_json:
        print_json(entry)
    else:
        click.echo(f"{path}: {len(trace.profiled_wall_us)} steps, {len(trace.rows)} rows, {entry.bytes} bytes")
