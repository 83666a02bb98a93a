"""Calls of Linux that Python has no functions for."""

from __future__ import annotations

import ctypes
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library; -1 stands for an error, and for a library that has no such function."""
    function = getattr(_LIBC, name, None)
    return -1 if function is None else int(function(*arguments))


def system_call(number: int, *arguments: Any) -> int:
    """Make a system call by its number; -1 stands for an error."""
    return call("syscall", ctypes.c_long(number), *arguments)


def prctl(option: int, value: int) -> bool:
    """Set an option of the calling process or thread; `False` if it was refused."""
    zero = ctypes.c_ulong(0)
    return call("prctl", ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero) == 0
