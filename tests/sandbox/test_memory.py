"""Memory is counted over all processes of a child, shared pages once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dlrm_bench.sandbox.child import Child, SubmissionFailedError

Run = Callable[[str], str]
SHARE = """
import mmap
held = mmap.mmap(-1, {mib} << 20)
for _ in range({mib}): held.write(bytes(1 << 20))
time.sleep(0.3)
"""
TOO_MUCH = "out_of_memory: took more memory than 1024 MiB, shared memory and all its processes counted"
FORK = """
held = torch.ones({mib} << 18)
for _ in range(4):
    if os.fork() == 0: {work}
time.sleep({seconds})
"""


def ending(run: Run, body: str) -> str:
    try:
        run(body)
    except SubmissionFailedError as error:
        return f"{error.status}: {error.message}"
    return "none"


@pytest.mark.parametrize(("mib", "expected"), [(400, "none"), (1100, TOO_MUCH)])
def test_shared_pages_count(run: Run, mib: int, expected: str) -> None:
    assert ending(run, SHARE.format(mib=mib)) == expected


def test_all_processes_count(run: Run) -> None:
    assert ending(run, FORK.format(mib=300, seconds=8, work="held.numpy()[:] = 2; time.sleep(9)")) == TOO_MUCH


def test_what_processes_share_counts_once(run: Run) -> None:
    assert ending(run, FORK.format(mib=300, seconds=1, work="time.sleep(9)")) == "none"


def test_the_arena_is_not_the_submissions(child: Child, run: Run) -> None:
    run("pass")
    arena = child.arena(1500 << 20)
    arena.view(arena.reserve(torch.uint8, (1500 << 20,))).fill_(1)
    time.sleep(0.2)
    assert run("pass") == "Tensor"


BOUNDED = """
import mmap
from pathlib import Path
from dlrm_bench.sandbox.limits import bound_own_memory

available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) << 10

def reserve(share):
    mmap.mmap(-1, int(share * available), flags=mmap.MAP_PRIVATE).close()

reserve(0.99)
bound_own_memory()
reserve(0.5)
try:
    reserve(1.01)
except OSError as error:
    print(error.strerror)
"""


def test_the_parent_takes_no_more_than_the_machine_has(python: Callable[..., Any]) -> None:
    called = python("-c", BOUNDED)
    assert (called.code, called.out.strip()) == (0, "Cannot allocate memory"), called.err
