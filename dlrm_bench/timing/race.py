"""Time a submission beside its baselines: paired blocks, each contestant in a child of its own.

A round runs every contestant twice, in an order drawn anew and then the same order backwards (A B B A for two), so
that drift of the machine cancels in the ratios. Each half of a round has inputs that were drawn for it, the same for
all contestants, and outputs of timed calls are taken back at random and judged like any other.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from dlrm_bench.correctness.bench import most_kept_calls, room_for_inputs
from dlrm_bench.correctness.judge import fresh_seed
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.problems import Problem
from dlrm_bench.records import Clock, Costs, Effort, Precision, Reason, SecondClock, Size, failure
from dlrm_bench.sandbox.child import SubmissionFailedError
from dlrm_bench.sandbox.digest import digests
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.costs import count_costs
from dlrm_bench.timing.device import ClockCosts
from dlrm_bench.timing.plans import FRESH_BYTES, JUDGED_CALLS, JUDGED_SHARE, PLANS, Plan
from dlrm_bench.timing.second_clock import refuse_hidden, second_clock
from dlrm_bench.timing.statistics import paired_speedup
from dlrm_bench.timing.telemetry import Sensors

ENTRY_TRIALS = 3
HOST_BLOCKS = 3
DIGESTS = 8
HOST_CALLS = 20
PROFILED_CALLS = 8
NEAR = 2.0
"""Distance from the reference's own output up to which one is not judged, of the distance that is allowed from the
right one."""
SECOND_LOOKS = 3
"""How often kernels are recorded at most, if they say that work was hidden: a GPU may have become slower meanwhile."""
MOST_HELD_US = 500.0
"""For how long a call a GPU is kept busy at most while the host queues."""
LEAD_CALLS = 2
"""Calls by which the host is ahead when a GPU is let go."""
FLUSH_LAUNCH_US = 50.0
"""What the host takes for the flush and the two events of a call."""


class Race:
    """One problem, one set of weights, and contestants that are timed on the same inputs."""

    def __init__(
        self, problem: Problem, size: Size, case: str, precision: Precision, device: torch.device, cold: bool
    ) -> None:
        self._problem = problem
        self._constants = problem.constants(size, case)
        self._precision: Precision = precision
        self._oracle = Oracle(problem, size, case, precision, device)
        self._weights = fresh_seed()
        self._oracle.rebuild(self._weights)
        self._entry = [self._oracle.trial(fresh_seed()) for _ in range(ENTRY_TRIALS)]
        self._near = NEAR * max(trial.thresholds.relative_l2 for trial in self._entry)
        self._digest_us = _digest_us(self._entry[0], device)
        self._random = random.SystemRandom()
        self.case = case
        self.device = device
        self.clock: Clock = "cuda_events" if device.type == "cuda" else "cpu_perf_counter"
        self.clock_costs = ClockCosts.on(device, cold)

    def enter(self, contestant: Contestant) -> None:
        """Build a contestant, judge it on several sets of inputs, and warm it up; one that is wrong is out."""
        with _turn_of(contestant):
            contestant.bench.child.build(self._oracle.init_inputs, self._weights, self._precision)
            reasons = [reason for trial in self._entry for reason in contestant.bench.call(trial).reasons]
            contestant.reason = reasons[0] if reasons else None

    def run(self, contestants: Sequence[Contestant], effort: Effort, sensors: Sensors | None) -> int:
        """Run rounds until the first contestant's ratios to all others are known narrowly, or the plan's most.

        Args:
            contestants: all that take part, first those that nobody trusts: the submission and its control.
            effort: how long.
            sensors: of the GPU, looked at after each round.

        Returns:
            Calls in each block.
        """
        plan = PLANS[effort]
        racing = _left(contestants)
        for each in racing:
            with _turn_of(each):
                each.host_us = self._host_us(each)
        calls = self._calls_per_block(racing, plan)
        for each in racing:
            each.start_over()
        for done in range(plan.most_rounds):
            if racing[0].reason is not None or (done >= plan.fewest_rounds and _narrow(racing, plan.narrow)):
                break
            order = self._random.sample(racing, len(racing))
            for half in (order, order[::-1]):
                sets = self._draw(calls)
                for each in half:
                    self._block(each, sets, calls)
                if not racing[0].block_us[1:] or self._random.random() < JUDGED_SHARE:
                    self._judge(racing, sets, calls)
                else:
                    self._look(self._random.choice(racing[:2]), sets, calls)
            if sensors is not None:
                sensors.look(done)
        return calls

    def second_clock(self, contestant: Contestant, others: Sequence[Contestant]) -> SecondClock | None:
        """Have a contestant's kernels recorded by the driver, once it is timed; nothing on a CPU.

        It is out of the race if its kernels say each time that it hid work from the events, if a recorded call is
        wrong, or if nothing of it can be recorded where the kernels of others can.
        """
        if self.device.type != "cuda":
            return None
        found = hidden = None
        for _ in range(SECOND_LOOKS):
            found = self._recorded(contestant)
            hidden = refuse_hidden(found, float(np.median(contestant.block_us))) if found is not None else None
            if hidden is None:
                break
        if found is not None and not found.kernels and any(self._has_kernels(each) for each in _left(others)):
            hidden = Reason("time_not_explained", "no kernel of its calls was recorded, though those of others were")
        contestant.reason = contestant.reason or hidden
        return found

    @cached_property
    def costs(self) -> Costs | None:
        """What a call has to do, counted on inputs like those that are timed."""
        trial = self._entry[0]
        output_bytes = int(np.prod(trial.shape)) * trial.dtype.itemsize
        named = self._oracle.named(trial.inputs)
        return count_costs(self._problem, self._constants, named, self._oracle.model, output_bytes)

    def _recorded(self, contestant: Contestant) -> SecondClock | None:
        sets = self._draw(most_kept_calls(self._entry[0], PROFILED_CALLS))
        # Recording makes launches slow, so that a call needs all the lead there is.
        hold_cycles = int(MOST_HELD_US * len(sets) * self.clock_costs.cycles_per_us)
        with _turn_of(contestant):
            found = second_clock(contestant.bench.profile(sets, hold_cycles), contestant.host_us)
            self._judge([contestant], sets, len(sets))
            return found
        return None

    def _has_kernels(self, contestant: Contestant) -> bool:
        found = self._recorded(contestant)
        return found is not None and len(found.kernels) > 0

    def _block(self, contestant: Contestant, sets: list[list[Any]], calls: int) -> None:
        if contestant.reason is not None:
            return
        flush_bytes, flush_us, cycles_per_us = self.clock_costs
        hold_us = self._hold_us(contestant, calls) if cycles_per_us else 0.0
        with _turn_of(contestant):
            block = contestant.bench.time(sets, calls, flush_bytes, int(hold_us * cycles_per_us))
            contestant.add(block, calls, hold_us + (flush_us + self._digest_us) * calls)

    def _hold_us(self, contestant: Contestant, calls: int) -> float:
        """Return how long a GPU must be kept busy so that no call waits for the host.

        No longer than that: what is held up is a gap in which work on another stream would not be seen.
        """
        launch_us = min(contestant.allowance * contestant.host_us, MOST_HELD_US) + FLUSH_LAUNCH_US
        if not contestant.block_us:
            return launch_us * calls
        behind_us = max(0.0, launch_us - contestant.block_us[0] - self.clock_costs.flush_us)
        return LEAD_CALLS * launch_us + behind_us * calls

    def _judge(self, racing: Sequence[Contestant], sets: list[list[Any]], calls: int) -> None:
        """Judge outputs of the half-round that has just been run: the last call's, which nothing came after, and some.

        Whoever still computes when all is said to be done is caught there.
        """
        judged = [calls - 1, *self._random.sample(range(calls), min(calls, JUDGED_CALLS) - 1)]
        for each in _left(racing):
            with _turn_of(each):
                changed = each.bench.inputs_changed(sets)
                each.reason = changed[0] if changed else None
        for call in judged:
            trial = self._oracle.answer(sets[call % len(sets)])
            for each in _left(racing):
                with _turn_of(each):
                    each.reason = _while_timed(each.bench.wrong_by_now(trial, call), self.case)

    def _look(self, suspect: Contestant, sets: list[list[Any]], calls: int) -> None:
        """Look at one output of a half-round that is not judged: so nothing can be left out in any block for nothing.

        It is held against what the reference returns in the precision, which takes far less time than an answer, and
        judged only if it is not near.
        """
        if suspect.reason is not None:
            return
        call = self._random.randrange(calls)
        inputs = sets[call % len(sets)]
        with _turn_of(suspect):
            changed = suspect.bench.inputs_changed(sets)
            if changed:
                suspect.reason = changed[0]
            elif not suspect.bench.is_near(self._oracle.plain(inputs), call, self._near):
                trial = self._oracle.answer(inputs)
                suspect.reason = _while_timed(suspect.bench.wrong_by_now(trial, call), self.case)

    def _host_us(self, contestant: Contestant) -> float:
        """Return the microseconds of a call by the parent's clock: what a longer block takes more than a shorter."""
        sets = [trial.inputs for trial in self._entry]
        most = most_kept_calls(self._entry[0], HOST_CALLS)
        few, many = (min(contestant.bench.time(sets, calls).wall_us for _ in range(HOST_BLOCKS)) for calls in (1, most))
        return max(0.0, (many - few) / (most - 1) - self._digest_us)

    def _draw(self, calls: int) -> list[list[Any]]:
        most = max(2, FRESH_BYTES // max(1, room_for_inputs(self._entry[0].inputs)))
        return [self._oracle.draw_inputs(fresh_seed()) for _ in range(min(calls, most))]

    def _calls_per_block(self, racing: Sequence[Contestant], plan: Plan) -> int:
        sets = [trial.inputs for trial in self._entry]
        for each in racing:
            each.start_over()
            self._block(each, sets, plan.fewest_calls)
        slowest = max((each.block_us[0] for each in _left(racing)), default=1.0)
        wanted = int(min(plan.most_calls, max(plan.fewest_calls, plan.block_us / slowest)))
        return most_kept_calls(self._entry[0], wanted)


def _digest_us(trial: Trial, device: torch.device) -> float:
    """Return the microseconds of the digest of one output among several."""
    outputs = [torch.zeros(trial.shape, dtype=trial.dtype, device=device)] * DIGESTS
    times = []
    for _ in range(1 + HOST_BLOCKS):
        start = time.perf_counter()
        digests(outputs)
        times.append((time.perf_counter() - start) * 1e6 / DIGESTS)
    return min(times[1:])


@contextlib.contextmanager
def _turn_of(contestant: Contestant) -> Iterator[None]:
    """Let a contestant run, and nobody else; whatever it ends in is its reason."""
    contestant.bench.child.resume()
    try:
        yield
    except SubmissionFailedError as error:
        contestant.reason = failure(error.status, error.message)
    finally:
        contestant.bench.child.pause()


def _left(racing: Sequence[Contestant]) -> list[Contestant]:
    return [each for each in racing if each.reason is None]


def _while_timed(reasons: Sequence[Reason], case: str) -> Reason | None:
    if not reasons:
        return None
    return Reason("wrong_while_timed", f"a timed call was wrong: {reasons[0].message}", case)


def _narrow(racing: Sequence[Contestant], narrow: float) -> bool:
    first, *others = racing
    ratios = [paired_speedup(first.by_round(), each.by_round()) for each in _left(others)]
    return all(each.high - each.low < 2 * narrow * each.median for each in ratios)
