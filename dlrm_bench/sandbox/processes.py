"""End a process and everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

ROUNDS = 20


def kill_tree(root: int, marker: bytes) -> None:
    """Kill a process and all its descendants, those in other sessions and process groups too.

    The root is stopped first and killed last: it is the reaper of its descendants, so that while it lives none of them
    can slip out of its tree. What an already dead root left behind is known by its environment.

    Args:
        root: the process, which leads its own group.
        marker: bytes that the root's environment holds, and no other process's but its descendants'.
    """
    _signal(root, signal.SIGSTOP)
    for _ in range(ROUNDS):
        below = _descendants(root)
        if not below:
            break
        for process in below:
            _signal(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    for process in [root, *_marked(marker)]:
        _signal(process, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
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


def _marked(marker: bytes) -> list[int]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marker in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
