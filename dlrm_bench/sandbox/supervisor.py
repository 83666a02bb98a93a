"""The process between the parent and a child: it ends all that the child has started, and ends when the parent does.

A line of their own joins the two. On it the supervisor says its number and, once the child has ended, how. It then
waits until the parent lets go of the line: as long as the parent may signal it, no other process can have its number.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
from collections.abc import Sequence
from struct import pack, unpack

from dlrm_bench.sandbox.linux import PR_SET_PDEATHSIG, prctl
from dlrm_bench.sandbox.processes import kill_below, kill_tree, stop_below

SIGNALLED = 128
"""Exit code of a supervisor whose child was killed by signal N: this plus N."""


class Supervisor:
    """The parent's handle on one, which may not have been forked yet."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._words: list[int] = []
        self._gone = False
        self._killed = False

    def process(self) -> int | None:
        """Return its number; `None` while it is not known, and when it may be another's."""
        self._listen(1, 0.0)
        return None if self._killed or self._gone or not self._words else self._words[0]

    def exit_code(self, timeout: float) -> int | None:
        """Return how the child ended, a signal as `SIGNALLED` and its number; `None` if nobody was left to say it.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds.
        """
        self._listen(2, timeout)
        if len(self._words) < 2 and not self._gone:
            raise TimeoutError(f"the child has not ended within {timeout:g} s")
        return self._words[1] if len(self._words) == 2 else None

    def stop_below(self) -> list[int]:
        """Stop all that is below it, and return those processes."""
        process = self.process()
        return [] if process is None else stop_below(process)

    def kill(self) -> None:
        """End it and all below it; one that has not been forked yet ends as soon as it is."""
        process, self._killed = self.process(), True
        if process is None:
            self._line.shutdown(socket.SHUT_WR)
        else:
            kill_tree(process)

    def close(self) -> None:
        """End it and all below it, and return when it is gone."""
        self.kill()
        if self._words:
            self._listen(3, None)
        self._line.close()

    def _listen(self, words: int, timeout: float | None) -> None:
        """Listen until it has said so many words, is gone, or says nothing for `timeout` seconds."""
        while len(self._words) < words and not self._gone and select.select([self._line], [], [], timeout)[0]:
            word = self._line.recv(4)
            if word:
                self._words += unpack("<i", word)
            else:
                self._gone = True


def supervise(descriptors: Sequence[int], line: int | None = None) -> None:
    """Fork and return in the child; the process itself waits for it, ends its orphans, and ends as it did.

    Args:
        descriptors: those that only the child is to hold.
        line: to the parent, for the process itself alone; everything ends when its other end does.
    """
    if line is not None:
        os.write(line, pack("<i", os.getpid()))
    child = os.fork()
    if child == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if line is not None:
            os.close(line)
        return
    for each in descriptors:
        os.close(each)
    if line is not None:
        _end_with(line)
    process = 0
    while process != child:
        process, status = os.wait()
    kill_below(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    code = code if code >= 0 else SIGNALLED - code
    if line is not None:
        # Whoever reads what the child has printed waits for its end.
        os.closerange(0, 3)
        os.write(line, pack("<i", code))
        os.read(line, 1)
    os._exit(code)


def _end_with(line: int) -> None:
    """End this process and all below it as soon as the other end of a line is closed."""

    def end(*_: object) -> None:
        kill_below(os.getpid())
        os._exit(1)

    signal.signal(signal.SIGIO, end)
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([line], [], [], 0)[0]:
        end()
