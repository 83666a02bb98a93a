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
        fewest_calls: calls in a block at least.
        most_calls: calls in a block at most.
        narrow: half-width of the interval, relative to the ratio, at which measuring stops.
    """

    fewest_rounds: int
    most_rounds: int
    block_us: float
    fewest_calls: int
    most_calls: int
    narrow: float


PLANS: dict[Effort, Plan] = {
    "quick": Plan(6, 6, 4e3, 8, 16, narrow=0.02),
    "standard": Plan(12, 30, 12e3, 12, 32, narrow=0.005),
    "thorough": Plan(30, 80, 24e3, 12, 64, narrow=0.002),
}
FRESH_BYTES = 1 << 30
"""Inputs drawn for a half-round at most: within it every call of a block has inputs of its own."""
JUDGED_CALLS = 3
"""Outputs of a half-round that are taken back and judged, where any are: the last, and others at random."""
JUDGED_SHARE = 0.1
"""Share of half-rounds that are judged; the first always is.

At the others one output is looked at, of the submission or its control."""
