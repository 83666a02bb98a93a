"""How long to measure, and what the figures must be like to be believed."""

from __future__ import annotations

from dataclasses import dataclass

from dlrm_bench.records import Effort


@dataclass(frozen=True)
class Plan:
    """One level of effort.

    Attributes:
        fewest_rounds: rounds before the stopping rule is asked.
        most_rounds: rounds at most.
        block_us: how long a block of calls of the slowest contestant is.
        most_calls: calls in a block at most.
        narrow: half-width of the interval, relative to the ratio, at which measuring stops.
        control: whether the submission runs in a second child too, so that equal code is seen to measure equal.
    """

    fewest_rounds: int
    most_rounds: int
    block_us: float
    most_calls: int
    narrow: float
    control: bool


PLANS: dict[Effort, Plan] = {
    "quick": Plan(6, 8, 4e3, 16, narrow=0.02, control=False),
    "standard": Plan(12, 30, 12e3, 32, narrow=0.005, control=True),
    "thorough": Plan(30, 80, 24e3, 64, narrow=0.002, control=True),
}
FEWEST_CALLS = 5
FLUSH_BYTES = 256 << 20
"""Overwritten before each timed call on a GPU: several times the L2 of any."""
FRESH_BYTES = 1 << 30
"""Inputs drawn for a half-round at most: within it every call of a block has inputs of its own."""
JUDGED_SHARE = 0.1
"""Share of blocks of which one output is taken back and judged; the first block always is."""
