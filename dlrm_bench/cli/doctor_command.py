"""`dlrm-bench doctor`."""

from __future__ import annotations

import click
import msgspec

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Say what is installed, what is missing, and the exact command that brings it."""
    from dlrm_bench.environment import describe, open_device
    from dlrm_bench.libraries import findings

    environment = describe(open_device(None))
    found = findings()
    if as_json:
        print_json({"environment": environment, "findings": found})
        return
    for name, value in msgspec.to_builtins(environment).items():
        click.echo(f"{name:12} {value or 'not found'}")
    click.echo()
    for finding in found:
        mark = "ok  " if finding.fine else "MEND"
        click.echo(f"{mark} {finding.about}: {finding.message}")
