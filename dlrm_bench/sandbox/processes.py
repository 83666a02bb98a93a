"""Find, count and end a process and everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable

ROUNDS = 20
STAT_BYTES = 1024
"""More than the first fields of a process's line take: its name is cut by the kernel."""


def kill_tree(root: int) -> None:
    """Kill a process and all its descendants, those in other sessions and process groups too.

    The root is stopped first and killed last: it is the reaper of its descendants, so that while it lives none of them
    can slip out of its tree. An interruption leaves none of them stopped.
    """
    try:
        _signal(root, signal.SIGSTOP)
        kill_below(root)
    finally:
        _signal(root, signal.SIGKILL)


def kill_below(root: int) -> None:
    """Kill all descendants of a process."""
    for _ in range(ROUNDS):
        below = descendants(root)
        if not below:
            break
        for process in below:
            _signal(process, signal.SIGKILL)


def stop_below(root: int) -> list[int]:
    """Stop all descendants of a process, and return them."""
    below = descendants(root)
    for process in below:
        _signal(process, signal.SIGSTOP)
    return below


def let_go(stopped: Iterable[int]) -> None:
    """Let stopped processes go on."""
    for process in stopped:
        _signal(process, signal.SIGCONT)


def descendants(root: int) -> list[int]:
    """Return the processes below a process that have not ended.

    All processes are looked at: the kernel's own list of children may leave some out while others end. It is asked for
    around every timed block, so that it reads as little as it can.
    """
    children: dict[int, list[int]] = {}
    for process in _processes():
        with contextlib.suppress(OSError, ValueError):
            state, parent = _stat(process).rpartition(b")")[2].split(maxsplit=2)[:2]
            if state != b"Z":
                children.setdefault(int(parent), []).append(process)
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(process: int) -> bytes:
    descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    try:
        return os.read(descriptor, STAT_BYTES)
    finally:
        os.close(descriptor)


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
