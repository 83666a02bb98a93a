"""Find, count and end a process and everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

ROUNDS = 20


def kill_tree(root: int) -> None:
    """Kill a process and all its descendants, those in other sessions and process groups too.

    The root is stopped first and killed last: it is the reaper of its descendants, so that while it lives none of them
    can slip out of its tree.
    """
    _signal(root, signal.SIGSTOP)
    kill_below(root)
    _signal(root, signal.SIGKILL)


def kill_below(root: int) -> None:
    """Kill all descendants of a process."""
    for _ in range(ROUNDS):
        below = descendants(root)
        if not below:
            break
        for process in below:
            _signal(process, signal.SIGKILL)


def signal_below(root: int, number: signal.Signals) -> None:
    """Send a signal to all descendants of a process."""
    for process in descendants(root):
        _signal(process, number)


def descendants(root: int) -> list[int]:
    """Return the processes below a process that have not ended."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(status.parent.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
