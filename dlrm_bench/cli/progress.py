"""Progress on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

AddBar = Callable[[str, int], Callable[[], None]]


@contextlib.contextmanager
def progress_bars() -> Iterator[AddBar]:
    """Show bars on stderr while it is a terminal.

    Yields:
        A function that adds a bar, by its description and its total, and returns the function that moves it on by one.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as shown:

        def add(description: str, total: int) -> Callable[[], None]:
            task = shown.add_task(description, total=total)
            return lambda: shown.advance(task)

        yield add
