"""Time a submission beside its baselines: paired blocks, each contestant in a child of its own.

A round runs every contestant twice, in an order drawn anew and then the same order backwards (A B B A for two), so
that drift of the machine cancels in the ratios. Each half of a round has inputs that were drawn for it, the same for
all contestants, and outputs of timed calls are taken back at random and judged like any other.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dlrm_bench.correctness.bench import Bench, most_kept_calls, room_for_inputs
from dlrm_bench.correctness.judge import fresh_seed
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Clock, Costs, Effort, Precision, Reason, Size, failure
from dlrm_bench.sandbox.child import Child, SubmissionFailedError
from dlrm_bench.timing.costs import count_costs
from dlrm_bench.timing.plans import FEWEST_CALLS, FLUSH_BYTES, FRESH_BYTES, JUDGED_SHARE, PLANS, Plan
from dlrm_bench.timing.statistics import paired_speedup

ENTRY_TRIALS = 3
WALL_BLOCKS = 5
WALL_CALLS = 20


@dataclass
class Contestant:
    """A child whose submission takes part, and what was measured of it.

    Attributes:
        name: its label.
        child: the child, submission imported.
        reason: why it is out of the race, if it is.
        block_us: median of each block, in the order they were run.
        wall_us: time of a call by the parent's own clock, without flushes, the device waited for.
    """

    name: str
    child: Child
    reason: Reason | None = None
    block_us: list[float] = field(default_factory=list)
    wall_us: float = 0.0

    @property
    def bench(self) -> Bench:
        """The judge's bench with this child on it."""
        return Bench(self.child, DEFAULT_CASE)

    def by_round(self) -> NDArray[np.float64]:
        """Return the block medians as [rounds, 2]."""
        return np.asarray(self.block_us, dtype=np.float64).reshape(-1, 2)


class Race:
    """One problem, one set of weights, and contestants that are timed on the same inputs."""

    def __init__(self, problem: Problem, size: Size, precision: Precision, device: torch.device) -> None:
        self._problem = problem
        self._constants = problem.constants(size)
        self._precision: Precision = precision
        self._oracle = Oracle(problem, size, DEFAULT_CASE, precision, device)
        self._weights = fresh_seed()
        self._oracle.rebuild(self._weights)
        self._entry = [self._oracle.trial(fresh_seed()) for _ in range(ENTRY_TRIALS)]
        self._random = random.SystemRandom()
        self.flush_bytes = FLUSH_BYTES if device.type == "cuda" else 0
        self.clock: Clock = "cuda_events" if device.type == "cuda" else "cpu_perf_counter"

    def enter(self, contestant: Contestant) -> None:
        """Build a contestant, judge it on inputs of several sizes, and warm it up; one that is wrong is out."""
        bench = contestant.bench
        try:
            contestant.child.build(self._oracle.init_inputs, self._weights, self._precision)
            reasons = [reason for trial in self._entry for reason in bench.call(trial).reasons]
            contestant.reason = reasons[0] if reasons else None
            contestant.wall_us = self._wall(bench)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)

    def run(self, contestants: Sequence[Contestant], effort: Effort) -> int:
        """Run rounds until the first contestant's ratios to all others are known narrowly, or the plan's most.

        Returns:
            Calls in each block.
        """
        plan = PLANS[effort]
        racing = [each for each in contestants if each.reason is None]
        calls = self._calls_per_block(racing, plan)
        for each in racing:
            each.block_us.clear()
        for done in range(plan.most_rounds):
            if racing[0].reason is not None or (done >= plan.fewest_rounds and _narrow(racing, plan.narrow)):
                break
            order = self._random.sample(racing, len(racing))
            for half in (order, order[::-1]):
                sets = self._draw(calls)
                for each in half:
                    self._block(each, sets, calls)
        return calls

    @cached_property
    def costs(self) -> Costs | None:
        """What a call has to do, counted on inputs like those that are timed."""
        trial = self._entry[0]
        output_bytes = int(np.prod(trial.shape)) * trial.dtype.itemsize
        named = self._oracle.named(trial.inputs)
        return count_costs(self._problem, self._constants, named, self._oracle.model, output_bytes)

    def _block(self, contestant: Contestant, sets: list[list[Any]], calls: int) -> None:
        if contestant.reason is not None:
            return
        try:
            timed = contestant.bench.time(sets, calls, self.flush_bytes)
            if len(timed.times_us) != calls or not all(0 < each < math.inf for each in timed.times_us):
                message = "the times of a block are not all finite and above zero"
                contestant.reason = Reason("time_not_explained", message)
                return
            if not contestant.block_us or self._random.random() < JUDGED_SHARE:
                call = self._random.randrange(calls)
                contestant.reason = self._wrong(contestant.bench, self._oracle.answer(sets[call % len(sets)]), call)
            contestant.block_us.append(float(np.median(timed.times_us)))
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)

    def _wrong(self, bench: Bench, trial: Trial, call: int) -> Reason | None:
        reasons = bench.wrong_by_now(trial, call)
        if not reasons:
            return None
        return Reason("wrong_while_timed", f"a timed call was wrong: {reasons[0].message}", DEFAULT_CASE)

    def _wall(self, bench: Bench) -> float:
        """Return the microseconds of a call by the parent's clock: what a longer block takes more than a shorter."""
        most = most_kept_calls(self._entry[0], FEWEST_CALLS + WALL_CALLS)
        few, many = (min(self._elapsed(bench, calls) for _ in range(WALL_BLOCKS)) for calls in (1, most))
        return max(0.0, many - few) / (most - 1) * 1e6

    def _elapsed(self, bench: Bench, calls: int) -> float:
        start = time.perf_counter()
        bench.time([trial.inputs for trial in self._entry], calls, queue_ahead=False)
        return time.perf_counter() - start

    def _draw(self, calls: int) -> list[list[Any]]:
        most = max(2, FRESH_BYTES // max(1, room_for_inputs(self._entry[0].inputs)))
        return [self._oracle.draw_inputs(fresh_seed()) for _ in range(min(calls, most))]

    def _calls_per_block(self, racing: Sequence[Contestant], plan: Plan) -> int:
        slowest = max((self._first_look(each) for each in racing), default=1.0)
        wanted = int(min(plan.most_calls, max(FEWEST_CALLS, plan.block_us / max(slowest, 1e-3))))
        return most_kept_calls(self._entry[0], wanted)

    def _first_look(self, contestant: Contestant) -> float:
        try:
            timed = contestant.bench.time([trial.inputs for trial in self._entry], FEWEST_CALLS, self.flush_bytes)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)
            return 1.0
        return float(np.median(timed.times_us))


def _narrow(racing: Sequence[Contestant], narrow: float) -> bool:
    first, *others = racing
    ratios = [paired_speedup(first.by_round(), each.by_round()) for each in others if each.reason is None]
    return all(each.high - each.low < 2 * narrow * each.median for each in ratios)
