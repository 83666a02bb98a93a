"""Time saved, said as a share and as a speedup, with the interval of its bootstrap draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dlrm_bench.records import Method, Saving
from dlrm_bench.timing.statistics import LEVEL


def make_saving(
    method: Method, saved: float, draws: ArrayLike | None = None, *, valid: bool = True, note: str = ""
) -> Saving:
    """Return a saving.

    Args:
        method: how it was projected.
        saved: share of the step saved, below 1.
        draws: the same of each bootstrap draw, if there are any.
        valid: whether the method's own check holds.
        note: what to say beside it.
    """
    if draws is None:
        return Saving(method, saved, speedup_of(saved), valid=valid, note=note)
    tail = (1 - LEVEL) / 2
    low, high = (float(end) for end in np.quantile(np.asarray(draws, np.float64), [tail, 1 - tail]))
    return Saving(method, saved, speedup_of(saved), low, high, speedup_of(low), speedup_of(high), valid, note)


def speedup_of(saved: float) -> float:
    """Return old time over new time; 8.63% saved is a speedup of 1.094."""
    return 1 / (1 - saved)
