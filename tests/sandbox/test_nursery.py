"""One process imports torch for all children, and is in nobody's way: children share nothing by it and outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from dlrm_bench.errors import SandboxError
from dlrm_bench.sandbox.child import Child, SubmissionFailedError
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.sandbox.nursery import end_nurseries
from dlrm_bench.sandbox.processes import descendants

CPU = torch.device("cpu")
SUBMISSION = """
import os, random, sys, tempfile
import numpy
import torch

SEED = torch.initial_seed()


class ModelNew(torch.nn.Module):
    def forward(self, expression):
        return type(repr(eval(expression, globals())), (), {})()
"""


def tell(child: Child, expression: str) -> Any:
    """Return the value of an expression in a child."""
    child.load(SUBMISSION)
    child.build([], 0, "fp32")
    return literal_eval(child.call([expression], 0).kind)


@pytest.fixture
def second() -> Iterator[Child]:
    with closing(Child(CPU, Limits())) as running:
        yield running


def stat(process: int) -> list[str]:
    """State, parent and so on, as the kernel has them; of one that is gone nothing."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return []


def dead(process: int) -> bool:
    return stat(process)[:1] in ([], ["Z"])


def below(process: int) -> list[int]:
    """Children of a process, dead or alive."""
    numbers = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [each for each in numbers if stat(each)[1:2] == [str(process)]]


def nursery_of(child: Child) -> int:
    child.wait()
    return int(stat(child._supervisor.process() or 0)[1])


def soon(holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 10
    while not holds() and time.monotonic() < ends:
        time.sleep(0.02)
    return holds()


# --- what children share, and what not -----------------------------------------------------------


def test_one_is_started_for_many_children(child: Child, second: Child) -> None:
    with closing(Child(CPU, Limits())) as third:
        assert nursery_of(child) == nursery_of(second) == nursery_of(third)
    assert stat(nursery_of(child))[1] == str(os.getpid())


def test_it_has_one_thread_and_so_has_a_child(child: Child) -> None:
    assert tell(child, "len(os.listdir('/proc/self/task'))") == 1
    assert len(list(Path(f"/proc/{nursery_of(child)}/task").iterdir())) == 1


def test_a_terminal_does_not_reach_it(child: Child) -> None:
    assert os.getsid(nursery_of(child)) == nursery_of(child)


def test_threads_start_in_a_child_as_ever(child: Child) -> None:
    found = tell(
        child,
        "[torch.set_num_threads(3), torch.get_num_threads(), (torch.ones(900, 900) @ torch.ones(900, 900)).max().item()"
        ", float((numpy.ones((900, 900)) @ numpy.ones((900, 900))).max()), torch.ones(1 << 22).sum().item()]",
    )
    assert found == [None, 3, 900.0, 900.0, float(1 << 22)]


def test_a_child_holds_no_descriptors_but_its_own(child: Child, second: Child) -> None:
    what = (
        "{n: os.readlink(f'/proc/self/fd/{n}') for n in map(int, os.listdir('/proc/self/fd')) if n < 5}, sys.argv[1:]"
    )
    for each in (child, second):
        each.load(SUBMISSION)
    (mine, named), (others, _) = tell(child, what), tell(second, what)
    assert mine.keys() == others.keys() == {0, 1, 2, *map(int, named)} == set(range(5))
    assert mine[0] == "/dev/null"
    assert mine[1] == mine[2]
    assert not {mine[1], mine[3]} & set(others.values())
    assert tell(child, "[n for n in range(5, 1000) if os.path.exists(f'/proc/self/fd/{n}')]") == []


def test_folders_are_a_childs_own(child: Child, second: Child) -> None:
    what = "[os.getcwd(), tempfile.gettempdir(), sys.path[0], os.environ['HOME'], os.path.dirname(__file__)]"
    assert tell(child, what) == [str(child.workspace)] * 5
    assert tell(second, what) == [str(second.workspace)] * 5


def test_what_one_changes_no_other_sees(child: Child) -> None:
    tell(child, "[setattr(torch, 'ones', None), os.environ.update(A='b'), torch.set_num_threads(5)]")
    with closing(Child(CPU, Limits())) as later:
        found = tell(later, "[torch.ones(2).tolist(), os.environ.get('A'), torch.get_num_threads() == 5]")
    assert found == [[1.0, 1.0], None, False]


@pytest.mark.parametrize(
    "drawn",
    [
        "random.random()",
        "float(numpy.random.rand())",
        "SEED",
        "os.urandom(8)",
        "torch.empty(1 << 26).data_ptr()",
    ],
)
def test_neither_random_numbers_nor_addresses_repeat(child: Child, second: Child, drawn: str) -> None:
    assert tell(child, drawn) != tell(second, drawn)


def test_another_environment_has_another(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    before = nursery_of(child)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with closing(Child(CPU, Limits())) as other:
        assert tell(other, "[torch.get_num_threads(), os.environ['OMP_NUM_THREADS']]") == [1, "1"]
        assert nursery_of(other) != before
    monkeypatch.undo()
    with closing(Child(CPU, Limits())) as third:
        assert nursery_of(third) == before
    assert tell(child, "os.environ.get('OMP_NUM_THREADS')") is None


# --- ends ----------------------------------------------------------------------------------------


def test_no_child_needs_it_to_live_on(child: Child) -> None:
    nursery = nursery_of(child)
    os.kill(nursery, signal.SIGKILL)
    assert soon(lambda: dead(nursery))
    assert tell(child, "1 + 1") == 2
    with closing(Child(CPU, Limits())) as later:
        assert tell(later, "1 + 2") == 3
    with pytest.raises(SubmissionFailedError, match="ended with exit code 3"):
        tell(child, "os._exit(3)")


def test_one_that_hangs_is_an_error_of_the_sandbox_and_the_next_works(child: Child) -> None:
    nursery = nursery_of(child)
    os.kill(nursery, signal.SIGSTOP)
    with closing(Child(CPU, Limits(start_s=0.5))) as waits, pytest.raises(SandboxError, match="did not come up"):
        waits.wait()
    with closing(Child(CPU, Limits())) as later:
        assert tell(later, "1 + 2") == 3


def test_one_that_does_not_come_up_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no such torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(Child(CPU, Limits())) as child, pytest.raises(SandboxError, match="ImportError: no such torch"):
        child.wait()


def test_a_child_that_is_closed_before_it_is_forked_ends() -> None:
    end_nurseries()
    child = Child(CPU, Limits())
    start = time.monotonic()
    child.close()
    assert time.monotonic() - start < 1
    assert not child.workspace.exists()
    with closing(Child(CPU, Limits())) as later:
        nursery = nursery_of(later)
        assert soon(lambda: len(below(nursery)) == 1)


def test_nothing_is_left_of_a_child_that_is_closed(child: Child) -> None:
    nursery = nursery_of(child)
    before = below(nursery)
    with closing(Child(CPU, Limits())) as other:
        tell(other, "1 + 1")
        with pytest.raises(SubmissionFailedError, match="SIGABRT"):
            tell(other, "os.abort()")
    assert soon(lambda: below(nursery) == before)


def test_a_supervisor_that_somebody_kills_is_a_crash(child: Child) -> None:
    child.wait()
    supervisor = child._supervisor.process()
    assert supervisor is not None
    started = descendants(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    assert soon(lambda: all(map(dead, started)))
    with pytest.raises(SubmissionFailedError, match="the process ended before it answered"):
        tell(child, "1 + 1")
    assert child._supervisor.process() is None


LEAVES = """
import os, signal
import torch
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.sandbox.processes import descendants
child = Child(torch.device("cpu"), Limits())
child.wait()
os.environ["OMP_NUM_THREADS"] = "1"
other = Child(torch.device("cpu"), Limits())
print(*descendants(os.getpid()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_the_parent(python: Callable[..., Any]) -> None:
    called = python("-c", LEAVES)
    assert called.code == -signal.SIGKILL, called.err
    left = [int(each) for each in called.out.split()]
    assert len(left) >= 4
    assert soon(lambda: all(map(dead, left)))


FORKS = """
import os
import torch
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.sandbox.nursery import _nurseries
first = Child(torch.device("cpu"), Limits())
fork = os.fork()
second = Child(torch.device("cpu"), Limits())
print(*[each._process.pid for key, each in _nurseries.items() if key[0] == os.getpid()], flush=True)
if not fork:
    second.wait()
    second.close()
    raise SystemExit
assert os.wait()[1] == 0
first.wait()
"""


def test_a_fork_of_the_parent_has_its_own(python: Callable[..., Any]) -> None:
    called = python("-c", FORKS)
    assert called.code == 0, called.err
    assert len(set(called.out.split())) == 2
