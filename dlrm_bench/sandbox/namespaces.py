"""Processes, network and shared memory of the child's own: unshare(2), mount(2), and the process that watches over it.

Where the kernel grants it, the child lives in namespaces in which there is nothing but itself. In any case a
supervisor, which runs nothing of the submission's, stands between it and the parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

from dlrm_bench.sandbox.linux import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, call, prctl
from dlrm_bench.sandbox.processes import kill_below

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 1 << 17, 1 << 27, 1 << 28, 1 << 29, 1 << 30
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 1 << 14, 1 << 18
SIGNALLED = 128
"""Exit code of a supervisor whose child was killed by signal N: this plus N."""


def isolate(descriptors: Sequence[int], shared_bytes: int, on_gpu: bool) -> list[str]:
    """Go on in a process of its own, below a supervisor, in new namespaces; only a process with one thread can.

    On a GPU only the network is new: memory of a process in another process namespace cannot be mapped there.

    Args:
        descriptors: those that only the child is to hold.
        shared_bytes: room in /dev/shm.
        on_gpu: whether the child will map GPU memory of its parent.
    """
    user = os.getuid()
    kinds = _unshare(CLONE_NEWNET | (0 if on_gpu else CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC))
    granted = ["no_network"] if kinds & CLONE_NEWNET else []
    if prctl(PR_SET_CHILD_SUBREAPER, 1):
        granted.append("reaper")
    _supervise(descriptors, parent_lives=0)
    if kinds & CLONE_NEWPID:
        granted += _mount(shared_bytes if os.getuid() == user else None)
        # The first process of a namespace is deaf to most signals, its own too: no place for a submission.
        _supervise(descriptors)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return granted


def _unshare(wanted: int) -> int:
    user, group = os.getuid(), os.getgid()
    for kinds in (wanted, wanted | CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNET | CLONE_NEWUSER):
        if call("unshare", kinds) == 0:
            if kinds & CLONE_NEWUSER:
                _stay(user, group)
            return kinds
    return 0


def _stay(user: int, group: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text(text)


def _mount(shared_bytes: int | None) -> list[str]:
    if call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return []
    granted, flags = [], MS_NOSUID | MS_NODEV
    if call("mount", b"proc", b"/proc", b"proc", flags | MS_NOEXEC | MS_RDONLY, None) == 0:
        granted.append("own_processes")
    # A user without a name in a namespace cannot write in a file system that was made there.
    if shared_bytes is not None:
        room = f"mode=1777,size={shared_bytes}".encode()
        if call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", flags, room) == 0:
            granted.append("own_shared_memory")
    return granted


def _supervise(descriptors: Sequence[int], parent_lives: int | None = None) -> None:
    """Fork and return in the child; the process itself waits for it, ends its orphans, and ends as it did.

    Args:
        descriptors: those that only the child is to hold.
        parent_lives: a descriptor that ends when the parent does; everything ends then.
    """
    child = os.fork()
    if child == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        return
    for each in descriptors:
        os.close(each)
    if parent_lives is not None:
        _end_with(parent_lives)
    process = 0
    while process != child:
        process, status = os.wait()
    kill_below(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else SIGNALLED - code)


def _end_with(descriptor: int) -> None:
    """End this process and all below it as soon as nobody can write to a pipe any more."""

    def end(*_: object) -> None:
        kill_below(os.getpid())
        os._exit(1)

    signal.signal(signal.SIGIO, end)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([descriptor], [], [], 0)[0]:
        end()
