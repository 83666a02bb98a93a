"""Give up writing, TCP and signals by Landlock, which any process may ask for; landlock(7) has the numbers."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from dlrm_bench.sandbox.linux import system_call

SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_ANY, REFER, TRUNCATE = 0b1111111 << 6, 1 << 13, 1 << 14
TCP = 0b11
SCOPES = 0b11
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "nvidia*", "dxg")
"""Below /dev: what C libraries, terminals, shared memory and NVIDIA's driver open for writing."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict_writes(folders: Sequence[str]) -> list[str]:
    """Give up writing outside `folders` and some devices, TCP, and signals to and tracing of processes outside.

    Binds the calling thread and every thread and process that it starts from now on. The kernel must have been told
    before that this thread gains no privileges any more.
    """
    version = system_call(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_RULESET_VERSION))
    if version < 1:
        return []
    files = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_ANY
    files |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rules = _Ruleset(files, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = ctypes.c_size_t(ctypes.sizeof(rules))
    ruleset = system_call(SYS_CREATE_RULESET, ctypes.byref(rules), size, ctypes.c_uint32(0))
    if ruleset < 0:
        return []
    devices = [str(node) for name in DEVICES for node in Path("/dev").glob(name)]
    for path in (*folders, *devices):
        _allow_beneath(ruleset, path, files)
    granted = system_call(SYS_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    names = [
        "landlock_files",
        *(["landlock_network"] if rules.network else []),
        *(["landlock_signals"] if rules.scopes else []),
    ]
    return names if granted else []


def _allow_beneath(ruleset: int, path: str, allowed: int) -> None:
    number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(number).st_mode):
            allowed &= WRITE_FILE | TRUNCATE
        rule = _PathBeneath(allowed, number)
        flags = ctypes.c_uint32(0)
        system_call(SYS_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(RULE_PATH_BENEATH), ctypes.byref(rule), flags)
    finally:
        os.close(number)
