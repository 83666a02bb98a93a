"""`dlrm-bench splice WORKLOAD SUBMISSIONS...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.workloads.registry import RECOMMENDERS

if TYPE_CHECKING:
    from dlrm_bench.records import Projection, Splice


@click.command("splice", epilog=f"WORKLOAD is {' or '.join(RECOMMENDERS)}.")
@click.argument("workload", metavar="WORKLOAD")
@click.argument("submissions", nargs=-1, required=True)
@click.option(
    "--build",
    type=click.Choice(["eager", "fused"]),
    default="eager",
    show_default=True,
    help="An nn.EmbeddingBag a table, or fbgemm's table-batched one in torchrec's model.",
)
@click.option("--tiny", is_flag=True, help="A configuration of a few thousand weights.")
@click.option("--device", help="cpu, cuda or cuda:N; the first GPU if there is one.")
@click.option("--trust", is_flag=True, help="Run files that do not ship with dlrm-bench in this process.")
@click.option(
    "--projection",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What `project --json` printed, to stand beside the measurement.",
)
@json_option
def command(
    workload: str,
    submissions: tuple[str, ...],
    build: Any,
    tiny: bool,
    device: str | None,
    trust: bool,
    projection: Path | None,
    as_json: bool,
) -> int:
    """Put SUBMISSIONS into WORKLOAD's modules, check its output, and time whole steps beside the original.

    SUBMISSIONS are solution:NAME, baseline:NAME, or, with --trust, files and folders of kernels judged before.
    The embedding bags take one for problem 2 or else 1, the interaction one for 7, the cross layers one for 8. They run
    in this process, outside the sandbox.
    """
    from dlrm_bench.environment import open_device
    from dlrm_bench.projection.splice import splice, trusted_submissions
    from dlrm_bench.workloads.registry import open_workload

    chosen = open_workload(workload)
    projected = _read(projection, chosen.label(build)).savings if projection is not None else []
    opened = trusted_submissions(submissions, trust)
    done = splice(chosen, build, opened, open_device(device), tiny=tiny, projected=projected)
    if as_json:
        print_json(done)
    else:
        click.echo("\n".join(_lines(done)))
    return 0 if done.correct else 1


def _read(path: Path, workload: str) -> Projection:
    import msgspec

    from dlrm_bench.records import Projection

    try:
        projection = msgspec.json.decode(path.read_bytes(), type=Projection)
    except OSError as error:
        raise MissingFileError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not what `dlrm-bench project --json` prints: {error}") from error
    if projection.workload != workload:
        raise UsageError(f"{path} is a projection for {projection.workload}, not for {workload}")
    return projection


def _lines(done: Splice) -> list[str]:
    lines = [f"{done.workload} on {done.environment.device}, {done.precision}"]
    lines += [f"  {each.place}: {each.submission} for {each.problem}" for each in done.replacements]
    lines += [f"  as in the original: {each}" for each in done.not_covered]
    for check in done.checks:
        verdict = "correct" if check.correct else "WRONG"
        lines.append(
            f"{check.what.replace('_', ' ')}: {verdict}, relative L2 {check.spliced.relative_l2:.2g} (original "
            f"{check.original.relative_l2:.2g}, threshold {check.thresholds.relative_l2:.2g})"
        )
    times = done.times
    if times is not None:
        lines.append(
            f"measured: {times.original_step_us:,.0f} us a step, {times.spliced_step_us:,.0f} us spliced: "
            f"{times.saved:.1%} of the time saved [{times.saved_low:.1%}, {times.saved_high:.1%}], "
            f"{times.speedup:.2f} times as fast [{times.speedup_low:.2f}, {times.speedup_high:.2f}]"
        )
    for saving in done.projected:
        interval = "" if saving.saved_low is None else f" [{saving.saved_low:.1%}, {saving.saved_high:.1%}]"
        note = "" if saving.valid else f"; not valid: {saving.note}"
        lines.append(
            f"projected, {saving.method.replace('_', ' ')}: {saving.saved:.1%} saved{interval}, "
            f"{saving.speedup:.2f} times as fast{note}"
        )
    return lines
