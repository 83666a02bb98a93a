"""`dlrm-bench export hf|kernelbench DIR`."""

from __future__ import annotations

from pathlib import Path

import click

from dlrm_bench.cli.options import json_option
from dlrm_bench.cli.output import print_json


@click.command("export")
@click.argument("kind", type=click.Choice(["hf", "kernelbench"]))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--check", is_flag=True, help="Write nothing: say what DIR has otherwise, exit code 1 if anything.")
@json_option
def command(kind: str, folder: Path, check: bool, as_json: bool) -> int:
    """Write what other software opens to the new folder DIR, or anew over an earlier export.

    hf is a dataset for Hugging Face: a card, the problems as Parquet, and the reference results and traces.
    kernelbench is a level for a checkout of KernelBench, with runs of kernels that are right.
    """
    from dlrm_bench.interop import folder as exports
    from dlrm_bench.interop import huggingface, kernelbench

    source = huggingface if kind == "hf" else kernelbench
    files = source.files()
    if not check:
        exports.write(folder, kind, files)
        print_json({"folder": str(folder), "files": sorted(files)}) if as_json else click.echo(
            f"wrote {len(files)} files to {folder}"
        )
        return 0
    found = exports.differences(folder, files)
    if as_json:
        print_json({"folder": str(folder), "same": not found, "differences": found})
    else:
        click.echo("\n".join(found) or f"{folder} is as an export writes it")
    return 1 if found else 0
