"""What every command prints through: JSON or tables on stdout, narration on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec


def print_json(value: Any) -> None:
    """Print one JSON document on a line of its own, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_error(kind: str, message: str, as_json: bool) -> None:
    """Print a failure: a JSON document on stdout, or a line on stderr."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message}})
    else:
        print(f"error: {message}", file=sys.stderr)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table as wide as its content where stdout is no terminal."""
    from rich.console import Console

    from dlrm_bench.report.text import table

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(header, rows, title))
