"""The projection of arXiv 2609.21058: one addressable share, one win rate, one speedup."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dlrm_bench.errors import UsageError
from dlrm_bench.projection.savings import make_saving
from dlrm_bench.records import Result, Saving

BASELINE = "eager"
RESAMPLES = 2000


def paper_saving(addressable: float, win_rate: float, speedup: float) -> Saving:
    """Return the time saved by the paper's formula: f * w * (1 - 1 / s).

    Args:
        addressable: share of the step that is addressable, f.
        win_rate: share of the problems that are won, w.
        speedup: median speedup of those, s.

    Raises:
        UsageError: a share is not within 0 and 1, or the speedup not above 0.
    """
    for name, share in (("addressable share", addressable), ("win rate", win_rate)):
        if not 0 <= share <= 1:
            raise UsageError(f"the {name} is {share:g}; it must lie within 0 and 1")
    if not 0 < speedup < math.inf:
        raise UsageError(f"the speedup is {speedup:g}; it must be above 0")
    saved = addressable * win_rate * (1 - 1 / speedup)
    return make_saving("paper", saved, note=f"f = {addressable:.4g}, w = {win_rate:.4g}, s = {speedup:.4g}")


def paper_saving_of(addressable: float, results: Sequence[Result], seed: int = 0) -> Saving:
    """Return the paper's formula for a submission's results, with an interval over problems of the same family.

    Args:
        addressable: share of kernel time that is addressable.
        results: one a problem.
        seed: of the resampling.
    """
    speedups = np.array([_win(result) for result in results])
    win_rate, speedup = _rate_and_median(speedups)
    drawn = speedups[np.random.default_rng(seed).integers(0, speedups.size, (RESAMPLES, speedups.size))]
    saved = [addressable * w * (1 - 1 / s) for w, s in map(_rate_and_median, drawn)]
    return make_saving(
        "paper",
        addressable * win_rate * (1 - 1 / speedup),
        saved,
        note=f"f = {addressable:.4g} of kernel time, w = {win_rate:.4g}, s = {speedup:.4g} against {BASELINE}",
    )


def win_rate_and_median(results: Sequence[Result]) -> tuple[float, float | None]:
    """Return the share of results that win against eager PyTorch, and the median speedup of those."""
    speedups = np.array([_win(result) for result in results])
    rate, median = _rate_and_median(speedups)
    return rate, median if rate else None


def _win(result: Result) -> float:
    """Return the speedup of a win, and NaN for everything else."""
    comparisons = result.measurement.comparisons if result.correct and result.measurement else []
    found = next((each for each in comparisons if each.baseline == BASELINE), None)
    won = found is not None and found.outcome == "win" and found.speedup is not None
    return float(found.speedup) if won and found and found.speedup else math.nan


def _rate_and_median(speedups: np.ndarray) -> tuple[float, float]:
    wins = speedups[~np.isnan(speedups)]
    return wins.size / speedups.size, float(np.median(wins)) if wins.size else 1.0
