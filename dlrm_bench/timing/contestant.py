"""A child that takes part in a race, and what was measured of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dlrm_bench.correctness.bench import Bench, Block
from dlrm_bench.records import Reason

ALLOWANCE_STEP = 1.5
MOST_ALLOWANCE = 4.0


@dataclass
class Contestant:
    """A child whose submission takes part.

    Attributes:
        name: its label.
        bench: the judge's bench with its child on it, submission imported.
        reason: why it is out of the race, if it is.
        block_us: time of a call in each block, in the order they were run: the mean over the block's calls.
        wall_us: the same by the parent's own clock, what the harness itself did taken off.
        host_us: time of a call in a row of calls that nothing was queued ahead of, by the parent's clock.
        allowance: by how much longer the host may take for a call than that.
    """

    name: str
    bench: Bench
    reason: Reason | None = None
    block_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)
    host_us: float = 0.0
    allowance: float = 1.0

    def add(self, block: Block, calls: int, harness_us: float) -> None:
        """Keep what a block says; times that are none put the contestant out of the race.

        Args:
            block: the block, by the child's word.
            calls: how many it was asked for.
            harness_us: what of the parent's time the harness itself took.
        """
        if len(block.times_us) != calls or not all(0 < each < math.inf for each in block.times_us):
            self.reason = Reason("time_not_explained", "a block has not one time a call, finite and above zero")
            return
        self.block_us.append(float(np.mean(block.times_us)))
        self.wall_us.append((block.wall_us - harness_us) / calls)
        if block.late > 0:
            # A host's speed drifts, and a submission that only says so is measured as one that sleeps there.
            self.allowance = min(MOST_ALLOWANCE, self.allowance * ALLOWANCE_STEP)

    def start_over(self) -> None:
        """Forget what was measured."""
        self.block_us, self.wall_us = [], []

    def by_round(self) -> NDArray[np.float64]:
        """Return the blocks as [rounds, 2]."""
        return np.asarray(self.block_us, dtype=np.float64).reshape(-1, 2)
