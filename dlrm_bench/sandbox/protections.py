"""What the child gives up before it imports a submission.

Each protection is tried, and the ones that the system granted are reported by name:

- `reaper`: whatever it starts stays below its supervisor, and dies with it.
- `no_network`: a network with nothing in it.
- `own_processes`: it sees no process but its own, reaches none, and all of them die at once.
- `own_shared_memory`: /dev/shm and System V's shared memory are its own, bounded, and end with it.
- `no_capabilities`: none of root's privileges but that of reading.
- `landlock_files`: no writing outside its folder and a few devices; neither the kernel's settings nor a process below
  /proc; no tracing of processes outside.
- `landlock_network`: no TCP.
- `landlock_signals`: no signal to a process outside.
- `system_calls`: no limits, priorities, cores, memory or descriptors of other processes, no keys, mounts and the like.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from dlrm_bench.records import Finding
from dlrm_bench.sandbox.capabilities import drop_capabilities
from dlrm_bench.sandbox.landlock import restrict_writes
from dlrm_bench.sandbox.linux import PR_SET_NO_NEW_PRIVS, prctl
from dlrm_bench.sandbox.namespaces import isolate
from dlrm_bench.sandbox.seccomp import refuse_calls

WITHOUT = {
    ("landlock_files",): "can write wherever you can",
    ("landlock_files", "own_processes"): "can look into your other processes",
    ("no_network", "landlock_network"): "can use the network",
    ("landlock_signals", "own_processes"): "can signal your other processes",
    ("system_calls", "own_processes"): "can change limits, priorities and cores of your other processes",
    ("no_capabilities",): "keeps your privileges",
    ("reaper", "own_processes"): "can leave processes behind",
    ("own_shared_memory",): "can leave files in /dev/shm",
}
"""What a submission can do if none of some protections is on."""


def before_driver(descriptors: Sequence[int], line: int, shared_bytes: int, device: str) -> list[str]:
    """Put the child into a process and namespaces of its own, and on a CPU give up all the rest.

    Args:
        descriptors: those that only the child is to hold.
        line: to the parent, for the child's supervisor.
        shared_bytes: room in /dev/shm.
        device: what the child will run on.
    """
    on_gpu = device != "cpu"
    granted = isolate(descriptors, line, shared_bytes, on_gpu)
    # While there is one thread, so that it binds all; but NVIDIA's driver must be set up first.
    return granted if on_gpu else [*granted, *give_up(on_gpu)]


def after_driver(device: str) -> list[str]:
    """On a GPU give up what could not be given up before."""
    return [] if device == "cpu" else give_up(on_gpu=True)


def give_up(on_gpu: bool) -> list[str]:
    """Give up writing outside the working folder, privileges, and system calls that nobody needs."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return [*drop_capabilities(), *restrict_writes([os.getcwd()]), *refuse_calls(on_gpu)]


def finding(granted: Collection[str], on_gpu: bool) -> Finding:
    """Say what a submission can do here that it could not if the system granted every protection."""
    missing = {names: without for names, without in WITHOUT.items() if not set(names) & set(granted)}
    if on_gpu:
        missing.pop(("own_shared_memory",), None)
    if not missing:
        return Finding("protections", True, ", ".join(granted))
    message = f"a submission {', '.join(missing.values())}: {', '.join(names[0] for names in missing)} not granted here"
    mend = "Linux 6.12 with Landlock grants all where neither a container nor a setting forbids user namespaces"
    return Finding("protections", False, f"{message}; {mend}")
