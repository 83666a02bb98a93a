"""A process that has imported torch, and forks a child whenever one is wanted: importing takes seconds, forking none.

Started as `python -m dlrm_bench.sandbox.nursery CONTROL`, a file descriptor. It is a program of its own and no fork of
the parent: there is nothing in it that a submission may not see. It runs nothing but imports and opens no GPU, which
each child does for itself. Children do not depend on it: whoever ends it keeps no child from answering.
"""

from __future__ import annotations

import atexit
import gc
import mmap
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from dlrm_bench.sandbox.limits import child_environment, own_folders
from dlrm_bench.sandbox.messages import Start
from dlrm_bench.sandbox.worker import work

MAX_START_BYTES = 1 << 16
DESCRIPTORS = 4
MOST_PAGES_SKIPPED = 1 << 18


class Nursery:
    """The parent's handle on one."""

    def __init__(self, environment: dict[str, str], output: int) -> None:
        """Start it; what it prints while it comes up goes into the descriptor `output`."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dlrm_bench.sandbox.nursery", str(theirs.fileno())],
                # Python looks for modules in the folder that it starts in, and at home: nobody leaves any here.
                cwd="/",
                env={**environment, "HOME": "/"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, start: Start, descriptors: Sequence[int]) -> bool:
        """Have a child forked, now or once torch is imported; `False` if the process is gone."""
        try:
            socket.send_fds(self._control, [msgspec.msgpack.encode(start)], descriptors)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End it; children go on."""
        self._control.close()
        self._process.kill()
        self._process.wait()


_nurseries: dict[tuple[int, frozenset[tuple[str, str]]], Nursery] = {}
"""By process and environment: a fork of this process inherits its parent's, and needs its own."""
_lock = threading.Lock()


def start_child(start: Start, channel: int, arena: int, output: int, line: int) -> None:
    """Have a child forked that has this process's environment; the first one has a nursery started."""
    environment, descriptors = child_environment(str(Path(__file__).parents[2])), [channel, arena, output, line]
    key = (os.getpid(), frozenset(environment.items()))
    with _lock:
        if key in _nurseries and _nurseries[key].ask(start, descriptors):
            return
        if key in _nurseries:
            _nurseries.pop(key).close()
        _nurseries[key] = Nursery(environment, output)
        _nurseries[key].ask(start, descriptors)


@atexit.register
def end_nurseries() -> None:
    """End those of this process; the next child gets a new one."""
    with _lock:
        for key in [each for each in _nurseries if each[0] == os.getpid()]:
            _nurseries.pop(key).close()


def main() -> None:
    """Fork children until the parent is gone; go on as each of them in turn."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Children are waited for by the system alone.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for each in (1, 2):
        os.dup2(nowhere, each)
    os.close(nowhere)
    # Else each child soon does it, and copies all that children share.
    gc.collect()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        asked = _next_child(control)
    if asked is not None:
        _become(*asked)


def _next_child(control: socket.socket) -> tuple[Start, list[int]] | None:
    """Fork at each request, and return in the child what was asked; in the process itself at the end of requests."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, MAX_START_BYTES, DESCRIPTORS)
        if not asked:
            return None
        try:
            if os.fork() == 0:
                return msgspec.msgpack.decode(asked, type=Start), descriptors
        except OSError as error:
            os.write(descriptors[2], f"no child can be forked: {error}".encode())
        for each in descriptors:
            os.close(each)


def _become(start: Start, descriptors: Sequence[int]) -> None:
    """Make this process what one that had been started in the child's folder would be, and work."""
    channel, arena, output, line = descriptors
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in (1, 2):
        os.dup2(output, each)
    os.close(output)
    os.chdir(start.workspace)
    os.environ.update(own_folders(start.workspace))
    tempfile.tempdir = None
    torch.default_generator.seed()
    sys.path[0], sys.argv[1:] = start.workspace, [str(channel), str(arena)]
    # What is allocated from now on lies elsewhere in each child, as in processes that have nothing in common.
    with mmap.mmap(-1, secrets.randbelow(MOST_PAGES_SKIPPED) * mmap.PAGESIZE + 1, mmap.MAP_PRIVATE, prot=0):
        work(start, channel, arena, line)


if __name__ == "__main__":
    main()
