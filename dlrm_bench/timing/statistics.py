"""Medians of paired ratios and their bootstrap intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    """A median with the ends of its bootstrap interval."""

    median: float
    low: float
    high: float


def median_interval(values: ArrayLike, seed: int = 0) -> Interval:
    """Return the median of some values with its percentile bootstrap 95% interval.

    Args:
        values: one a round; at least one.
        seed: of the resampling, fixed so that a saved record gives the same interval again.
    """
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, sample.size, (RESAMPLES, sample.size))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.median(sample[drawn], axis=1), [tail, 1 - tail])
    return Interval(float(np.median(sample)), float(low), float(high))


def paired_speedup(submission_us: ArrayLike, baseline_us: ArrayLike) -> Interval:
    """Return baseline time over submission time, from the two blocks that each has in every round.

    Args:
        submission_us: [rounds, 2] block times.
        baseline_us: [rounds, 2] block times of the same rounds.
    """
    submission, baseline = (np.asarray(each, dtype=np.float64).sum(axis=1) for each in (submission_us, baseline_us))
    return median_interval(baseline / submission)


def widened(ratio: Interval, noise: float) -> Interval:
    """Return an interval that holds for other children of the same code too, which lie elsewhere in memory.

    Args:
        ratio: as it is known for the children of one run.
        noise: how far two equal runs lie apart.
    """
    return Interval(ratio.median, ratio.low / (1 + noise), ratio.high * (1 + noise))


def distance(ratio: Interval) -> float:
    """Return how far from 1 the farther end of an interval lies."""
    return max(abs(ratio.low - 1), abs(ratio.high - 1))
