"""`dlrm-bench doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json
from dlrm_bench.errors import SandboxError
from dlrm_bench.records import Finding

if TYPE_CHECKING:
    import torch


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Say what is installed, what is missing, and the exact command that brings it."""
    from dlrm_bench.environment import describe, open_device
    from dlrm_bench.libraries import findings

    device = open_device(None)
    environment = describe(device)
    found = [*findings(), _protections(device)]
    if as_json:
        print_json({"environment": environment, "findings": found})
        return
    for name, value in msgspec.to_builtins(environment).items():
        click.echo(f"{name:12} {value or 'not found'}")
    click.echo()
    for finding in found:
        mark = "ok  " if finding.fine else "MEND"
        click.echo(f"{mark} {finding.about}: {finding.message}")


def _protections(device: torch.device) -> Finding:
    """Start a child as for a submission, and see what it could give up."""
    from dlrm_bench.sandbox.child import Child
    from dlrm_bench.sandbox.limits import Limits
    from dlrm_bench.sandbox.protections import finding

    child = Child(device, Limits())
    try:
        child.wait()
    except SandboxError as error:
        return Finding("protections", False, str(error))
    finally:
        child.close()
    return finding(child.protections, on_gpu=device.type == "cuda")
