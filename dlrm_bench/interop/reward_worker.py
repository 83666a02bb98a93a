"""The process that works out rewards: `python -m dlrm_bench.interop.reward_worker`, a request and a reply a line.

What it runs is trusted; submissions have children of their own. The process is there so that a trainer keeps its random
state, its current device and its standard output, from whatever thread it asks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache

import msgspec
import torch

from dlrm_bench.environment import default_precision, default_size, open_device
from dlrm_bench.errors import DlrmBenchError
from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem
from dlrm_bench.records import ProblemCard, RewardReply, RewardRequest
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import Submission, baseline

LABEL = "reward"


class Worker:
    """Evaluates one request after another, and keeps what the next one needs again."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._evaluator: Evaluator | None = None

    def answer(self, request: RewardRequest) -> RewardReply:
        """Evaluate one submission; whatever goes wrong is in the reply."""
        try:
            problem, settings = _problem(request), _settings(request)
            for case in settings.cases or ():
                problem.overrides(settings.size, case)
            for name in settings.baselines:
                baseline(name, problem)
        except DlrmBenchError as error:
            return RewardReply(refused=str(error))
        try:
            evaluator = self._evaluator_for(settings)
            with _turn(settings):
                return RewardReply(evaluator.evaluate(Submission(LABEL, problem, request.source)))
        except Exception as error:
            self.close()
            said = (str(error).strip().splitlines() or [""])[0]
            return RewardReply(failed=f"{type(error).__name__}: {said}")

    def close(self) -> None:
        """End all children."""
        before, self._evaluator, self._settings = self._evaluator, None, None
        if before is not None:
            before.close()

    def _evaluator_for(self, settings: Settings) -> Evaluator:
        if self._evaluator is None or self._settings != settings:
            self.close()
            self._settings, self._evaluator = settings, Evaluator(settings, spares=1)
        return self._evaluator


def _problem(request: RewardRequest) -> Problem:
    card = None if request.card is None else msgspec.json.encode(request.card)
    return _same_problem(request.problem_id, request.problem, request.code, card, request.problem_level)


@lru_cache(maxsize=16)
def _same_problem(number: int, name: str, code: str, card: bytes | None, level: int) -> Problem:
    """Return one object for equal problems: by it the evaluator knows that it has the baselines already."""
    return Problem(number, name, code, None if card is None else msgspec.json.decode(card, type=ProblemCard), level)


def _settings(request: RewardRequest) -> Settings:
    device = open_device(request.device)
    return Settings(
        device=device,
        size=request.size or (default_size(device) if request.card is not None else "full"),
        precision=request.precision or default_precision(device),
        effort=request.effort,
        baselines=request.baselines if request.effort is not None else (),
        cases=request.cases,
        limits=Limits.within(request.seconds, request.memory_bytes),
    )


@contextlib.contextmanager
def _turn(settings: Settings) -> Iterator[None]:
    """Wait until no other process times on this device, and keep it meanwhile."""
    if settings.effort is None:
        yield
        return
    device = settings.device
    # By its serial number: processes that see different devices number them differently.
    name = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else "cpu"
    path = os.path.join(tempfile.gettempdir(), f"dlrm_bench_{os.getuid()}_{name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _end(*_: object) -> None:
    # Once: a second one, while children are being ended, would leave the folders of those that are not ended yet.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def main() -> None:
    """Answer until stdin ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a reference prints must not get among the replies
    worker = Worker()
    signal.signal(signal.SIGTERM, _end)
    try:
        for line in sys.stdin.buffer:
            replies.write(msgspec.json.encode(worker.answer(msgspec.json.decode(line, type=RewardRequest))) + b"\n")
            replies.flush()
    finally:
        worker.close()


if __name__ == "__main__":
    main()
