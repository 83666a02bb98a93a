"""Refuse the system calls that reach other processes or the system by the user's name alone, with no right to ask for.

A filter in the kernel's classic packet language, seccomp(2), which any process may install. No submission needs these
calls, nor does a library that one may use. Whatever they would do is answered with "not permitted".
"""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

from dlrm_bench.sandbox.linux import system_call


class _Machine(NamedTuple):
    column: int
    architecture: int
    seccomp: int


MACHINES = {"x86_64": _Machine(0, 0xC000003E, 317), "aarch64": _Machine(1, 0xC00000B7, 277)}
REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "open_by_handle_at": (304, 265),
    "mount": (165, 40),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "userfaultfd": (323, 282),
}
"""Never permitted: the call's number on each machine. The last would let an output be computed when it is looked at."""
REFUSED_ON_A_CPU = {"memfd_create": (319, 279)}
"""Memory that no process maps counts towards no limit. NVIDIA's driver may have its reasons."""
ITSELF_ONLY = {
    "prlimit64": ((302, 261), {0: 0}),
    "sched_setaffinity": ((203, 122), {0: 0}),
    "sched_setscheduler": ((144, 119), {0: 0}),
    "sched_setparam": ((142, 118), {0: 0}),
    "sched_setattr": ((314, 274), {0: 0}),
    "setpriority": ((141, 140), {0: 0, 1: 0}),
    "ioprio_set": ((251, 30), {0: 1, 1: 0}),
}
"""Permitted for the caller itself: the call's number on each machine, and its arguments that must have one value."""

SET_MODE_FILTER, ALL_THREADS, NO_SLOWDOWN = 1, 1 << 0, 1 << 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1
LOAD, RETURN, IF_EQUAL, IF_AT_LEAST = 0x20, 0x06, 0x15, 0x35
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
FIRST_OF_X32 = 0x40000000


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def refuse_calls(on_gpu: bool) -> list[str]:
    """Install the filter for all threads of this process and whatever they start."""
    machine = MACHINES.get(os.uname().machine)
    if machine is None:
        return []
    code = _filter(machine, REFUSED if on_gpu else REFUSED | REFUSED_ON_A_CPU)
    program = _Program(len(code), (_Instruction * len(code))(*(_Instruction(*each) for each in code)))
    flags = ctypes.c_uint(ALL_THREADS | NO_SLOWDOWN)
    answer = system_call(machine.seccomp, ctypes.c_uint(SET_MODE_FILTER), flags, ctypes.byref(program))
    return ["system_calls"] if answer == 0 else []


def _filter(machine: _Machine, refused: dict[str, tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    refuse, allow = (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, machine.architecture),
        refuse,
        (LOAD, 0, 0, NUMBER),
        (IF_AT_LEAST, 0, 1, FIRST_OF_X32),
        refuse,
    ]
    for numbers in refused.values():
        code += [(IF_EQUAL, 0, 1, numbers[machine.column]), refuse]
    for numbers, wanted in ITSELF_ONLY.values():
        checks = [
            step
            for argument, value in wanted.items()
            for step in ((LOAD, 0, 0, ARGUMENTS + 8 * argument), (IF_EQUAL, 1, 0, value), refuse)
        ]
        code += [(IF_EQUAL, 0, len(checks) + 1, numbers[machine.column]), *checks, allow]
    return [*code, allow]
