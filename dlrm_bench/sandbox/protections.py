"""What the child gives up before it imports a submission.

Each protection is tried, and the ones that the system granted are reported: `landlock_files` (nothing outside its own
folder can be written), `landlock_network` (no TCP), `landlock_signals` (no signal to a process outside), `no_network`
(an empty network namespace), `reaper` (whatever it starts stays below it, and dies with it). The numbers are Linux's:
landlock(7), prctl(2), unshare(2).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)

SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_ANY, REFER, TRUNCATE = 0b1111111 << 6, 1 << 13, 1 << 14
TCP = 0b11
SCOPES = 0b11
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 38, 36
SIGKILL = 9
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
WRITABLE_DEVICES = ("/dev", "/proc")


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def isolate_network() -> list[str]:
    """Move to a network namespace with nothing in it; only a process with one thread can."""
    unshare = getattr(_LIBC, "unshare", None)
    if unshare is None:
        return []
    granted = unshare(CLONE_NEWNET) == 0 or unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
    return ["no_network"] if granted else []


def stay_in_reach() -> list[str]:
    """Die with the parent, and be the one that orphans among the descendants fall to."""
    if not hasattr(_LIBC, "prctl"):
        return []
    _LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    return ["reaper"] if _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 else []


def restrict_writes(folders: Sequence[str]) -> list[str]:
    """Give up writing outside `folders` and the devices, TCP, and signals to processes outside.

    Binds the calling thread and every thread and process that it starts from now on.
    """
    if not hasattr(_LIBC, "syscall"):
        return []
    version = _LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    if version < 1:
        return []
    files = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_ANY
    files |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rules = _Ruleset(files, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    ruleset = _LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return []
    for folder in (*folders, *WRITABLE_DEVICES):
        _allow_beneath(ruleset, folder, files)
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    granted = _LIBC.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    names = [
        "landlock_files",
        *(["landlock_network"] if rules.network else []),
        *(["landlock_signals"] if rules.scopes else []),
    ]
    return names if granted else []


def _allow_beneath(ruleset: int, folder: str, allowed: int) -> None:
    if not Path(folder).is_dir():
        return
    number = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(allowed, number)
        _LIBC.syscall(SYS_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(number)
