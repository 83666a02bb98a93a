"""Processes, network and shared memory of the child's own: unshare(2), mount(2).

Where the kernel grants it, the child lives in namespaces in which there is nothing but itself. In any case a
supervisor, which runs nothing of the submission's, stands between it and the parent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from dlrm_bench.sandbox.linux import PR_SET_CHILD_SUBREAPER, call, prctl
from dlrm_bench.sandbox.supervisor import supervise

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 1 << 17, 1 << 27, 1 << 28, 1 << 29, 1 << 30
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 1 << 14, 1 << 18


def isolate(descriptors: Sequence[int], line: int, shared_bytes: int, on_gpu: bool) -> list[str]:
    """Go on in a process of its own, below a supervisor, in new namespaces; only a process with one thread can.

    On a GPU only the network is new: memory of a process in another process namespace cannot be mapped there.

    Args:
        descriptors: those that only the child is to hold.
        line: to the parent, for the supervisor.
        shared_bytes: room in /dev/shm.
        on_gpu: whether the child will map GPU memory of its parent.
    """
    user = os.getuid()
    kinds = _unshare(CLONE_NEWNET | (0 if on_gpu else CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC))
    granted = ["no_network"] if kinds & CLONE_NEWNET else []
    if prctl(PR_SET_CHILD_SUBREAPER, 1):
        granted.append("reaper")
    supervise(descriptors, line)
    if kinds & CLONE_NEWPID:
        granted += _mount(shared_bytes if os.getuid() == user else None)
        # The first process of a namespace is deaf to most signals, its own too: no place for a submission.
        supervise(descriptors)
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
