"""Watch how much memory a process and all below it hold together, shared pages included.

The kernel's own limits count each process alone, and private pages only.
"""

from __future__ import annotations

import time
from pathlib import Path

from dlrm_bench.sandbox.processes import descendants

EVERY_S = 0.1
RESIDENT = ("RssAnon:", "RssShmem:", "VmSwap:")
PROPORTIONAL = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


class MemoryWatch:
    """Says whether a tree of processes holds more than it may, beyond what it held when the watch began."""

    def __init__(self, root: int, most_bytes: int) -> None:
        self._root = root
        # As if the largest shared with nobody: how many others share what torch takes changes all the time.
        self._most = max(_sum(process, "status", RESIDENT) for process in [root, *descendants(root)]) + most_bytes
        self._next = 0.0

    def exceeded(self, lent_bytes: int) -> bool:
        """Return whether it holds more than it may and `lent_bytes`; looks at most every tenth of a second."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + EVERY_S
        return _held(self._root, at_least=self._most + lent_bytes) > self._most + lent_bytes


def _held(root: int, at_least: int) -> int:
    """Return the bytes that a tree holds; to the byte only if they may be more than `at_least`.

    What several processes share counts once for each in the quick sum, and once in the one that takes longer.
    """
    tree = [root, *descendants(root)]
    quick = sum(_sum(process, "status", RESIDENT) for process in tree)
    if quick <= at_least:
        return quick
    return sum(_sum(process, "smaps_rollup", PROPORTIONAL) or _sum(process, "status", RESIDENT) for process in tree)


def _sum(process: int, name: str, fields: tuple[str, ...]) -> int:
    lines = _read(Path("/proc", str(process), name)).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(fields))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
