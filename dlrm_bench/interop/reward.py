"""A reward for trainers: source and problem in, a number and the reason out."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dlrm_bench.errors import CannotRunError
from dlrm_bench.problems import Problem, load_problems
from dlrm_bench.records import CHEATING, Effort, Precision, Result, Reward, RewardReply, RewardRequest, Size
from dlrm_bench.submissions import BASELINES, CARDLESS_BASELINES

WRONG = 0.0
CHEATED = -1.0
RIGHT_UNTIMED = 1.0
DEFAULT_MEMORY_BYTES = 8 << 30


def reward(
    source: str,
    problem: Problem | str | int,
    *,
    device: str | None = None,
    size: Size | None = None,
    precision: Precision | None = None,
    effort: Effort | None = "quick",
    baselines: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    timeout: float | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> Reward:
    """Return what a submission is worth.

    Cheating is -1. Wrong is 0, in whatever way. Right is log2(1 + s), where s is the lower end of the 95% interval of
    the speedup over the baseline that it does worst against: near 0 if it is far slower, 1 if it is surely as fast, 2
    if it is surely three times as fast. With `effort=None` right is 1.

    A submission never makes it raise. It changes nothing in this process, neither random state nor current device: a
    process beside it does the work, and keeps a problem's baselines compiled for the next call. It may be called from
    any thread and from many processes; those that time on one device wait for each other.

    Args:
        source: text that defines `ModelNew`.
        problem: a problem, or the id or name of a bundled one.
        device: `cpu`, `cuda` or `cuda:N`; the first GPU if there is one.
        size: `full` on a GPU and `small` on a CPU if left out.
        precision: bf16 on a GPU and fp32 on a CPU if left out.
        effort: how long to time what is right; `None` to judge only.
        baselines: what to time it beside; all that the problem has if left out.
        cases: which cases to judge; all if left out, and no other choice is safe to train on.
        timeout: seconds for the submission as a whole.
        memory_bytes: that it may allocate.

    Raises:
        UnknownProblemError: there is no such bundled problem.
        CannotRunError: nothing can be judged here in this way: no such device, baseline or case.
    """
    chosen = problem if isinstance(problem, Problem) else load_problems().find(problem)
    fitting = BASELINES if chosen.card is not None else CARDLESS_BASELINES
    request = RewardRequest(
        # Half a surrogate pair, which sampled text may hold, is no text to anybody else.
        source=source.encode("utf-8", "replace").decode("utf-8"),
        problem_id=chosen.id,
        problem=chosen.name,
        problem_level=chosen.level,
        code=chosen.code,
        card=chosen.card,
        device=device,
        size=size,
        precision=precision,
        effort=effort,
        baselines=tuple(fitting if baselines is None else baselines),
        cases=None if cases is None else tuple(cases),
        seconds=timeout,
        memory_bytes=memory_bytes,
    )
    reply = _WORKERS.of(device).ask(request)
    if reply.refused is not None:
        raise CannotRunError(reply.refused)
    if reply.result is None:
        return Reward(WRONG, "not_judged", f"{chosen.name}: {reply.failed}")
    return reward_of(reply.result)


def reward_of(result: Result) -> Reward:
    """Return what a result is worth, by the same scheme."""
    if not result.correct:
        first = result.verdict.reasons[0]
        cheated = next((each for each in result.verdict.reasons if each.reason in CHEATING), None)
        decisive = cheated or first
        return Reward(CHEATED if cheated else WRONG, decisive.reason, decisive.message, result=result)
    if result.measurement is None:
        return Reward(RIGHT_UNTIMED, "correct", "right, and not timed", result=result)
    against = [(each.low, each.baseline) for each in result.measurement.comparisons if each.low is not None]
    if not against:
        return Reward(WRONG, "not_timed", "right, but no baseline could be timed beside it", result=result)
    low, name = min(against)
    message = f"right, and at least {low:.3f} times as fast as {name}"
    return Reward(math.log2(1 + low), "correct", message, speedup=low, result=result)


def close() -> None:
    """End the processes that work out rewards; the next call starts one again."""
    _WORKERS.close()


class _WorkerHandle:
    """The process that works out rewards on one device, for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: RewardRequest) -> RewardReply:
        """Have one request answered; a process that is gone is started again for the next one."""
        with self._lock:
            process = self._process = self._process or _start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(msgspec.json.encode(request) + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            except BaseException:
                # Interrupted: its answer would be taken for the next one's.
                self._end()
                raise
            if line.endswith(b"\n"):
                return msgspec.json.decode(line, type=RewardReply)
            return RewardReply(failed=f"the process that judges ended with code {self._end()}")

    def close(self) -> None:
        """End the process; who waits for its answer, in whatever thread, is told."""
        process = self._process
        if process is not None:
            process.terminate()
        with self._lock:
            if self._process is not None:
                self._end()

    def _end(self) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        # Closing a pipe into a process that is gone fails where something is left to be written.
        with contextlib.suppress(BrokenPipeError), process:
            pass
        return process.wait()


class _Workers:
    """One process a device."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Leave the processes to whom they belong: to the parent, in a fork."""
        self._lock = threading.Lock()
        self._handles: dict[str | None, _WorkerHandle] = {}

    def of(self, device: str | None) -> _WorkerHandle:
        """Return the process for a device."""
        with self._lock:
            return self._handles.setdefault(device, _WorkerHandle())

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            handles, self._handles = self._handles, {}
        for handle in handles.values():
            handle.close()


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(part for part in (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")) if part)
    return subprocess.Popen(
        [sys.executable, "-m", "dlrm_bench.interop.reward_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        # An interruption of the trainer's is the trainer's: it ends this process when it ends itself.
        start_new_session=True,
    )


_WORKERS = _Workers()
os.register_at_fork(after_in_child=_WORKERS.forget)
atexit.register(close)
