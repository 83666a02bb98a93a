"""A hundred hostile submissions in one run: a hundred records, and nothing left running."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.runs import read_results

HEAD = """
import ctypes, mmap, os, signal, subprocess, sys, threading, time
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, embeddings):
        for _ in range(1):
"""
BODIES = {
    "exit": "os._exit(0)",
    "raise_exit": "raise SystemExit(0)",
    "abort": "os.abort()",
    "segfault": "ctypes.string_at(0)",
    "kill_itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "hang": "while True: pass",
    "sleep": "time.sleep(600)",
    "deaf_hang": "[signal.signal(each, signal.SIG_IGN) for each in (15, 2, 1)]; time.sleep(600)",
    "memory": "held = [bytearray(1 << 28) for _ in range(64)]",
    "tensor_memory": "held = [torch.ones(1 << 26) for _ in range(64)]",
    "shared_memory": "held = [mmap.mmap(-1, 1 << 28) for _ in range(16)]; [m.write(bytes(1 << 28)) for m in held]",
    "flood": "[sys.stdout.write('x' * (1 << 20)) for _ in range(2048)]",
    "flood_error": "[os.write(2, b'y' * (1 << 20)) for _ in range(1024)]",
    "fork": "os.fork() or time.sleep(600)",
    "forks": "[os.fork() for _ in range(6)]; time.sleep(600)",
    "orphans": "[subprocess.Popen(['sleep', '600'], start_new_session=True, env={}) for _ in '12345']; os._exit(1)",
    "threads": "[threading.Thread(target=time.sleep, args=(600,)).start() for _ in range(50)]; raise ValueError",
    "files": "held = [os.open('/dev/null', os.O_RDONLY) for _ in range(100000)]",
    "big_file": "open('big', 'wb').truncate(1 << 40)",
    "recursion": "def down(n): return down(n + 1)\n            down(0)",
}
ROUNDS = 5


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_end_in_a_hundred_records(python: Callable[..., Any], tmp_path: Path) -> None:
    lines = [
        {
            "problem": 9,
            "sample": number,
            "code": f"{HEAD}            {body}\n        return embeddings.sum(dim=(1, 2))\n",
        }
        for number, body in enumerate(list(BODIES.values()) * ROUNDS)
    ]
    (tmp_path / "hostile.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    # Children work in a folder below this one, by which they are known from those of other runs.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    options = ["--problems", "9", "--effort", "none", "--device", "cpu", "--timeout", "4", "--memory", "1"]
    called = python(
        "-m", "dlrm_bench", "eval", tmp_path / "hostile.jsonl", "-o", tmp_path / "run", *options, env=environment
    )
    assert called.code == 0, called.err
    results = read_results(tmp_path / "run")
    assert len(results) == len(BODIES) * ROUNDS == 100
    assert not any(result.correct for result in results)
    assert Counter(result.status for result in results)["timeout"] >= 4 * ROUNDS
    assert working_below(tmp_path) == []


def working_below(folder: Path) -> list[str]:
    """Processes whose working folder is below a folder: children, and all that they have started."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(place).startswith(str(folder)):
                found.append(place.parent.name)
    return found
