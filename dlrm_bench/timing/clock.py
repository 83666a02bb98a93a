"""Time a submission beside its baselines: paired blocks, each contestant in a child of its own.

A round runs every contestant twice, in an order drawn anew and then the same order backwards (A B B A for two), so
that drift of the machine cancels in the ratios. The inputs of each block are copied in just before it, drawn from a
pool in an order that nobody can foresee, and some outputs of timed calls are taken back and judged like any other.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field

import numpy as np
import torch

from dlrm_bench.correctness.compare import compare, wrong_facts
from dlrm_bench.correctness.judge import fresh_seed, place, room_for_trial
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Comparison, Effort, Measurement, Outcome, Precision, Reason, Size, failure, status_of
from dlrm_bench.sandbox.arena import room_for
from dlrm_bench.sandbox.child import Child, SubmissionFailedError
from dlrm_bench.timing.costs import count_costs
from dlrm_bench.timing.roofline import roofline
from dlrm_bench.timing.statistics import noise_of, paired_speedup

POOL = 4
SETS_PER_BLOCK = 3
FLUSH_BYTES = 256 << 20
KEPT_OUTPUT_BYTES = 4 << 30
JUDGED_SHARE = 0.2


@dataclass(frozen=True)
class EffortPlan:
    """How long to measure: rounds, and how long and how many calls a block is."""

    rounds: int
    block_us: float
    most_calls: int


PLANS: dict[Effort, EffortPlan] = {
    "quick": EffortPlan(rounds=8, block_us=5e3, most_calls=20),
    "standard": EffortPlan(rounds=20, block_us=15e3, most_calls=50),
    "thorough": EffortPlan(rounds=60, block_us=30e3, most_calls=100),
}
FEWEST_CALLS = 5


@dataclass
class Contestant:
    """A child whose submission takes part, and what was measured of it.

    Attributes:
        name: its label.
        child: the child, submission imported.
        reason: why it is out of the race, if it is.
        block_us: median of each block, in the order they were run.
    """

    name: str
    child: Child
    reason: Reason | None = None
    block_us: list[float] = field(default_factory=list)

    def by_round(self) -> np.ndarray:
        """Return the block medians as [rounds, 2]."""
        return np.asarray(self.block_us).reshape(-1, 2)


class Race:
    """One problem, one set of weights, a pool of inputs with right answers, and the contestants."""

    def __init__(self, problem: Problem, size: Size, precision: Precision, device: torch.device) -> None:
        self._problem = problem
        self._constants = problem.constants(size)
        self._precision: Precision = precision
        self._device = device
        self._oracle = Oracle(problem, size, DEFAULT_CASE, precision, device)
        self._weights = fresh_seed()
        self._oracle.rebuild(self._weights)
        self._pool = [self._oracle.trial(fresh_seed()) for _ in range(POOL)]
        self._random = random.Random(secrets.randbits(64))
        self._flush_bytes = FLUSH_BYTES if device.type == "cuda" else 0

    def enter(self, contestant: Contestant) -> None:
        """Build a contestant and judge it on the whole pool; one that is wrong is out."""
        try:
            contestant.child.build(self._oracle.init_inputs, self._weights, self._precision)
            for trial in self._pool:
                self._judge_call(contestant, trial)
            self._block(contestant, FEWEST_CALLS)
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)

    def run(self, contestants: list[Contestant], effort: Effort) -> int:
        """Run the rounds; every contestant that stays in gets two blocks a round.

        Returns:
            Calls in each block.
        """
        plan = PLANS[effort]
        racing = [each for each in contestants if each.reason is None]
        calls = self._calls_per_block(racing, plan)
        for each in racing:
            each.block_us.clear()
        for _ in range(plan.rounds):
            order = self._random.sample(racing, len(racing))
            for each in order + order[::-1]:
                if each.reason is None:
                    self._timed_block(each, calls)
        return calls

    def measurement(
        self,
        submission: Contestant,
        baselines: list[tuple[Contestant, str]],
        effort: Effort,
        calls: int,
        ceilings: tuple[float, float] | None,
    ) -> Measurement:
        """Put together what the clock says of one submission."""
        noise = noise_of(submission.by_round())
        median_us = float(np.median(submission.block_us))
        trial = self._pool[0]
        output_bytes = int(np.prod(trial.shape)) * trial.dtype.itemsize
        costs = count_costs(
            self._problem, self._constants, self._oracle.named(trial.inputs), self._oracle.model, output_bytes
        )
        return Measurement(
            clock="cuda_events" if self._device.type == "cuda" else "cpu_perf_counter",
            cold=self._flush_bytes > 0,
            effort=effort,
            median_us=median_us,
            noise=noise,
            comparisons=[_compare(submission, each, about, noise) for each, about in baselines],
            costs=costs,
            roofline=roofline(costs, ceilings, median_us) if costs and ceilings else None,
            block_us=submission.block_us,
            calls_per_block=calls,
        )

    def _judge_call(self, contestant: Contestant, trial: Trial) -> None:
        arena = contestant.child.arena(room_for_trial(trial))
        called = contestant.child.call(place(arena, trial.inputs))
        reasons = wrong_facts(called, trial, DEFAULT_CASE, self._device)
        if not reasons:
            reasons = self._judge_kept(contestant, 0, trial)
        contestant.reason = contestant.reason or (reasons[0] if reasons else None)

    def _judge_kept(self, contestant: Contestant, call: int, trial: Trial) -> list[Reason]:
        arena = contestant.child.arena(room_for(trial.dtype, trial.shape))
        target = arena.reserve(trial.dtype, trial.shape)
        contestant.child.fetch(call, target)
        return compare(arena.view(target), trial, DEFAULT_CASE)[0]

    def _timed_block(self, contestant: Contestant, calls: int) -> None:
        try:
            sets, times = self._block(contestant, calls)
            if self._random.random() < JUDGED_SHARE or not contestant.block_us:
                call = self._random.randrange(calls)
                for reason in self._judge_kept(contestant, call, sets[call % len(sets)]):
                    message = f"a timed call was wrong: {reason.message}"
                    contestant.reason = Reason("wrong_while_timed", message, value=reason.value)
            contestant.block_us.append(float(np.median(times)))
        except SubmissionFailedError as error:
            contestant.reason = failure(error.status, error.message)

    def _block(self, contestant: Contestant, calls: int) -> tuple[list[Trial], list[float]]:
        sets = self._random.sample(self._pool, SETS_PER_BLOCK)
        arena = contestant.child.arena(sum(map(room_for_trial, self._pool)))
        timed = contestant.child.time([place(arena, trial.inputs) for trial in sets], calls, self._flush_bytes)
        return sets, timed.times_us

    def _calls_per_block(self, racing: list[Contestant], plan: EffortPlan) -> int:
        trial = self._pool[0]
        output_bytes = max(1, int(np.prod(trial.shape)) * trial.dtype.itemsize)
        most = min(plan.most_calls, max(FEWEST_CALLS, KEPT_OUTPUT_BYTES // output_bytes))
        slowest = max(float(np.median(self._block(each, FEWEST_CALLS)[1])) for each in racing) if racing else 1.0
        return int(min(most, max(FEWEST_CALLS, plan.block_us / max(slowest, 1e-3))))


def _compare(submission: Contestant, baseline: Contestant, about: str, noise: float) -> Comparison:
    if baseline.reason is not None:
        return Comparison(baseline.name, status_of(baseline.reason), f"{about}; {baseline.reason.message}")
    speedup = paired_speedup(submission.by_round(), baseline.by_round())
    return Comparison(
        baseline=baseline.name,
        status="correct",
        message=about,
        median_us=float(np.median(baseline.block_us)),
        speedup=speedup.median,
        low=speedup.low,
        high=speedup.high,
        outcome=_outcome(speedup.low, speedup.high, noise),
        block_us=list(baseline.block_us),
    )


def _outcome(low: float, high: float, noise: float) -> Outcome:
    if low > 1 + noise:
        return "win"
    return "loss" if high < 1 - noise else "tie"
