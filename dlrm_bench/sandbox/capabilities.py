"""Give up the privileges of root, capabilities(7)."""

from __future__ import annotations

import ctypes

from dlrm_bench.sandbox.linux import call

VERSION_3 = 0x20080522
CAP_DAC_READ_SEARCH = 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


_Sets = ctypes.c_uint32 * 6
"""Effective, permitted and inheritable capabilities: the low half of each, then the high half of each."""


def drop_capabilities() -> list[str]:
    """Give up all of them but that of reading files of others, without which a package of another user is unreadable.

    Binds the calling thread and every thread and process that it starts from now on.
    """
    header, sets = _Header(VERSION_3, 0), _Sets()
    if call("capget", ctypes.byref(header), sets) != 0:
        return []
    kept = _Sets(*(each & CAP_DAC_READ_SEARCH for each in sets[:2]))
    return ["no_capabilities"] if call("capset", ctypes.byref(header), kept) == 0 else []
