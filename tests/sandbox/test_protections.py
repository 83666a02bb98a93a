"""What a submission cannot do to other processes and to the system, and what is said where it can."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlrm_bench.sandbox.child import Child, SubmissionFailedError
from dlrm_bench.sandbox.protections import WITHOUT, finding
from dlrm_bench.sandbox.seccomp import (
    ALLOW,
    ITSELF_ONLY,
    MACHINES,
    REFUSE,
    REFUSED,
    REFUSED_ON_A_CPU,
    _filter,
)

Needs = Callable[[str], None]
Do = Callable[[str], str]
ALL = [name for names in WITHOUT for name in names]
CALL = (
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\nif libc.{} == -1: raise OSError(ctypes.get_errno(), 'x')"
)


@pytest.mark.parametrize(
    "body",
    [
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
        "os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))",
        "os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "os.setpriority(os.PRIO_USER, 0, 19)",
        "os.memfd_create('hidden')",
        CALL.format("ptrace(16, os.getppid(), None, None)"),
        CALL.format("process_vm_readv(os.getppid(), None, 0, None, 0, 0)"),
        CALL.format("mount(b'x', b'/tmp', b'tmpfs', 0, None)"),
        CALL.format("syscall(250 if os.uname().machine == 'x86_64' else 219, 0, 0, 0)"),
        CALL.format("syscall(323 if os.uname().machine == 'x86_64' else 282, 1)"),
    ],
    ids=lambda body: next(line for line in body.splitlines() if "(" in line and "CDLL" not in line)[:60],
)
def test_a_call_that_reaches_others_is_refused(needs: Needs, do: Do, body: str) -> None:
    needs("system_calls")
    with pytest.raises(SubmissionFailedError, match=r"not permitted|Errno 1\b"):
        do(body)


@pytest.mark.parametrize(
    "body",
    [
        "resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))",
        "os.sched_setaffinity(0, os.sched_getaffinity(0))",
        "os.nice(1)",
        "import threading; thread = threading.Thread(target=torch.ones, args=(9,)); thread.start(); thread.join()",
        "assert subprocess.run(['sh', '-c', 'nice true']).returncode == 0",
        "import multiprocessing as m\nwith m.get_context('spawn').Pool(1) as pool: assert pool.map(abs, [-1]) == [1]",
        "open('/dev/null', 'w').write('x'); open('/dev/shm/x', 'w').write('x')",
    ],
)
def test_what_it_does_to_itself_is_permitted(do: Do, body: str) -> None:
    do(body)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/{parent}/oom_score_adj",
        "/proc/self/oom_score_adj",
        "/dev/a_new_one",
        "/dev/kmsg",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ],
)
def test_neither_the_kernels_settings_nor_other_devices_can_be_written(needs: Needs, do: Do, path: str) -> None:
    needs("landlock_files")
    target = path.format(parent=os.getpid())
    with pytest.raises(SubmissionFailedError, match=r"Permission|Read-only|No such file"):
        do(f"open({target!r}, 'w')")


def test_it_sees_no_process_but_its_own(needs: Needs, run: Do) -> None:
    needs("own_processes")
    run("assert [each for each in os.listdir('/proc') if each.isdigit()] == ['1', str(os.getpid())]")


def test_it_cannot_read_its_parents_environment(needs: Needs, do: Do) -> None:
    needs("landlock_files")
    with pytest.raises(SubmissionFailedError, match=r"Permission denied|No such file"):
        do(f"open('/proc/{os.getpid()}/environ', 'rb').read()")
    with pytest.raises(SubmissionFailedError, match="Permission denied"):
        do("open(f'/proc/{os.getppid()}/environ', 'rb').read()")


def test_what_it_leaves_in_shared_memory_is_gone(needs: Needs, do: Do) -> None:
    needs("own_shared_memory")
    name = f"dlrm_bench_test_{os.getpid()}"
    do(f"open('/dev/shm/{name}', 'w').write('x')")
    assert not Path("/dev/shm", name).exists()


def test_shared_memory_is_bounded(needs: Needs, do: Do) -> None:
    needs("own_shared_memory")
    with pytest.raises(SubmissionFailedError, match="No space left"):
        do("with open('/dev/shm/x', 'wb') as f: os.unlink('/dev/shm/x'); [f.write(bytes(64 << 20)) for _ in range(17)]")


def test_it_has_no_privileges(needs: Needs, do: Do) -> None:
    needs("no_capabilities")
    do("status = open('/proc/self/status').read()\nassert int(status.split('CapEff:')[1].split()[0], 16) in (0, 4)")
    with pytest.raises(SubmissionFailedError, match=r"not permitted|not allowed"):
        do("resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 19, 1 << 19))")


def test_what_is_granted_is_said_before_a_submission_runs(child: Child) -> None:
    child.wait()
    assert "reaper" in child.protections
    assert set(child.protections) <= set(ALL)


# --- the filter ----------------------------------------------------------------------------------


def answer(code: list[tuple[int, int, int, int]], number: int, architecture: int, *arguments: int) -> int:
    """Run a filter as the kernel does."""
    data = {0: number, 4: architecture, **{16 + 8 * i: value for i, value in enumerate(arguments)}}
    accumulator, at = 0, 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        if operation == 0x20:
            accumulator = data[value]
        elif operation == 0x06:
            return value
        else:
            at += yes if (accumulator == value if operation == 0x15 else accumulator >= value) else no


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_filter_refuses_what_it_should_and_nothing_else(machine: Any) -> None:
    code = _filter(machine, REFUSED | REFUSED_ON_A_CPU)
    for numbers in (REFUSED | REFUSED_ON_A_CPU).values():
        assert answer(code, numbers[machine.column], machine.architecture) == REFUSE
    for numbers, wanted in ITSELF_ONLY.values():
        right = [wanted.get(i, 7) for i in range(3)]
        assert answer(code, numbers[machine.column], machine.architecture, *right) == ALLOW
        for argument in wanted:
            other = [each + (i == argument) for i, each in enumerate(right)]
            assert answer(code, numbers[machine.column], machine.architecture, *other) == REFUSE
    known = {each[machine.column] for each in (REFUSED | REFUSED_ON_A_CPU).values()}
    known |= {numbers[machine.column] for numbers, _ in ITSELF_ONLY.values()}
    assert all(answer(code, number, machine.architecture) == ALLOW for number in set(range(470)) - known)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_filter_refuses_calls_of_another_architecture(machine: Any) -> None:
    code = _filter(machine, REFUSED)
    assert answer(code, 1, 0x40000003) == REFUSE
    assert answer(code, 0x40000001, machine.architecture) == REFUSE


# --- on a GPU, and in words ----------------------------------------------------------------------


def test_a_gpus_child_stays_among_the_processes_of_its_parent(tmp_path: Path) -> None:
    script = """
import os, sys, torch
from dlrm_bench.sandbox.protections import after_driver, before_driver
granted = before_driver([], int(sys.argv[1]), 1 << 20, "cuda:0")
print(*granted, *after_driver("cuda"), os.getpid(), os.memfd_create("driver") > 0)
"""
    line, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        subprocess.Popen(
            [sys.executable, "-c", script, str(end.fileno())],
            cwd=tmp_path,
            # One thread, as in a nursery that has forked.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[end.fileno()],
        ) as started,
        end,
        line,
    ):
        assert started.stdout is not None
        *granted, process, driver = started.stdout.read().split()
    assert not {"own_processes", "own_shared_memory"} & set(granted)
    assert {"reaper", "no_capabilities"} <= set(granted)
    assert int(process) > 2
    assert driver == "True"


@pytest.mark.parametrize(
    ("missing", "on_gpu", "fine", "words"),
    [
        ((), False, True, "no_network"),
        (("own_processes", "own_shared_memory"), True, True, "system_calls"),
        (("own_processes", "own_shared_memory"), False, False, "can leave files in /dev/shm"),
        (("landlock_network",), False, True, "no_network"),
        (("landlock_network", "no_network"), False, False, "can use the network: no_network not granted here"),
        (("landlock_files",), False, False, "can write wherever you can"),
    ],
)
def test_what_is_missing_is_said(missing: tuple[str, ...], on_gpu: bool, fine: bool, words: str) -> None:
    found = finding([name for name in ALL if name not in missing], on_gpu)
    assert found.fine == fine
    assert words in found.message
