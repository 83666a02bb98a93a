"""The child is alone, under limits, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from dlrm_bench.sandbox.child import Child, ChildPool, SubmissionFailedError
from dlrm_bench.sandbox.limits import Limits

CPU = torch.device("cpu")
Needs = Callable[[str], None]
Run = Callable[[str], str]


def test_it_cannot_write_outside_its_folder(needs: Needs, run: Run, tmp_path: Path) -> None:
    needs("landlock_files")
    target = tmp_path / "evil"
    with pytest.raises(SubmissionFailedError, match="Permission denied"):
        run(f"open({str(target)!r}, 'w')")
    assert not target.exists()


def test_it_can_write_inside_its_folder(run: Run) -> None:
    run("open('notes', 'w').write('mine')\nimport tempfile; tempfile.TemporaryFile().write(b'x')")


def test_it_has_no_network(child: Child, run: Run) -> None:
    with pytest.raises(SubmissionFailedError, match=r"OSError|PermissionError|unreachable"):
        run("socket.create_connection(('127.0.0.1', 9), timeout=2)")
    assert {"landlock_network", "no_network"} & set(child.protections)


def test_it_cannot_signal_its_parent(needs: Needs, run: Run) -> None:
    needs("landlock_signals")
    with pytest.raises(SubmissionFailedError, match="not permitted"):
        run("os.kill(os.getppid(), 0)")


def test_it_sees_none_of_the_parents_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "abc")
    with pytest.raises(SubmissionFailedError, match="KeyError"):
        run("os.environ['A_SECRET_KEY']")


def test_it_cannot_write_a_large_file(run: Run) -> None:
    with pytest.raises(SubmissionFailedError, match="File too large"):
        run("with open('big', 'wb') as f: f.truncate(1 << 31)")


def test_each_child_has_its_own_folder_and_it_is_removed() -> None:
    with closing(Child(CPU, Limits())) as first, closing(Child(CPU, Limits())) as second:
        folders = [each.workspace for each in (first, second)]
        assert folders[0] != folders[1]
        assert all(folder.is_dir() for folder in folders)
    assert not any(folder.exists() for folder in folders)


def a_time_nobody_else_sleeps() -> str:
    return f"{1000 + os.getpid() + time.monotonic():.6f}"


def alive(marker: str) -> list[int]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in line.read_bytes():
                found.append(int(line.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.Popen(['sleep', '{seconds}'])",
        "subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)",
        "subprocess.Popen(['sh', '-c', 'sleep {seconds} & sleep {seconds}'], start_new_session=True)",
        "subprocess.Popen(['sh', '-c', 'setsid sleep {seconds} & exit']).wait()",
        "subprocess.Popen(['/bin/sleep', '{seconds}'], start_new_session=True, env={{}})",
    ],
    ids=["child", "new session", "grandchild", "orphan", "no environment"],
)
@pytest.mark.parametrize("ending", ["answers", "dies"])
def test_what_it_started_ends_with_it(child: Child, run: Run, start: str, ending: str) -> None:
    seconds = a_time_nobody_else_sleeps()
    body = start.format(seconds=seconds) + ("" if ending == "answers" else "\ntime.sleep(0.2)\nos.kill(os.getpid(), 9)")
    with contextlib.nullcontext() if ending == "answers" else pytest.raises(SubmissionFailedError, match="SIGKILL"):
        run(body)
    child.close()
    assert alive(seconds) == []


def test_everything_ends_with_its_parent(python: Callable[..., Any]) -> None:
    seconds = a_time_nobody_else_sleeps()
    submission = f"""
import ctypes, subprocess, time
subprocess.Popen(["/bin/sleep", "{seconds}"], start_new_session=True, env={{}})
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
class ModelNew:
    def __init__(self):
        time.sleep({seconds})
"""
    parent = f"""
import os, signal, threading, time
import torch
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.limits import Limits
child = Child(torch.device("cpu"), Limits())
child.load({submission!r})
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
child.build([], 0, "fp32")
"""
    assert python("-c", parent).code == -signal.SIGKILL
    time.sleep(0.5)
    assert alive(seconds) == []


def test_an_interrupted_end_is_an_end_all_the_same(child: Child, run: Run) -> None:
    seconds = a_time_nobody_else_sleeps()
    run(f"subprocess.Popen(['sleep', '{seconds}'])")
    before = signal.signal(signal.SIGALRM, lambda *_: sys.exit())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        with pytest.raises(SystemExit):
            child.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    ends = time.monotonic() + 5
    while child.workspace.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    assert not child.workspace.exists()
    assert alive(seconds) == []


def test_it_outlives_the_thread_that_started_it() -> None:
    with ThreadPoolExecutor(1) as starter:
        child = starter.submit(Child, CPU, Limits()).result()
    with closing(child):
        child.load("class ModelNew: pass")


def test_a_dead_child_stays_dead(child: Child, run: Run) -> None:
    with pytest.raises(SubmissionFailedError, match="exit code 3"):
        run("os._exit(3)")
    with pytest.raises(SubmissionFailedError) as caught:
        child.call([], 0)
    assert caught.value.status == "crash"


def test_garbage_on_the_channel_is_a_crash(run: Run) -> None:
    with pytest.raises(SubmissionFailedError) as caught:
        run("os.write(int(sys.argv[1]), b'\\x05\\x00\\x00\\x00hello')\ntime.sleep(1)")
    assert (caught.value.status, "garbage" in caught.value.message) == ("crash", True)


def test_an_answer_out_of_turn_is_a_crash(run: Run) -> None:
    forged = "from dlrm_bench.sandbox.messages import Channel, Timed\nimport socket\n"
    forged += "Channel(socket.socket(fileno=os.dup(int(sys.argv[1])))).send(Timed([1.0], 0, [0]))"
    with pytest.raises(SubmissionFailedError, match="out of turn"):
        run(forged)


def test_the_total_time_bounds_everything() -> None:
    limits = Limits.within(1.0, 1 << 30)
    with closing(Child(CPU, limits)) as child:
        child.load("class ModelNew:\n    def __init__(self):\n        import time; time.sleep(30)\n")
        start = time.monotonic()
        with pytest.raises(SubmissionFailedError) as caught:
            child.build([], 0, "fp32")
    assert caught.value.status == "timeout"
    assert time.monotonic() - start < 5


def test_a_pool_hands_out_each_child_once() -> None:
    pool = ChildPool(CPU, Limits(), spares=1)
    with closing(pool), closing(pool.take()) as first, closing(pool.take()) as second:
        assert first is not second
        first.load("class ModelNew: pass")
        second.load("class ModelNew: pass")
