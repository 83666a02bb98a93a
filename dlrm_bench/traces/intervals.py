"""Which part of its time a kernel had the GPU to itself, and how long the GPU ran anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Occupancy(NamedTuple):
    """Times in the unit of the intervals.

    Attributes:
        busy: length of the intervals' union.
        exclusive: [n] time in which no other interval was open.
        shared: [n] time, each moment divided by the number of intervals open in it; adds up to `busy`.
    """

    busy: float
    exclusive: NDArray[np.float64]
    shared: NDArray[np.float64]


def occupancy(start: ArrayLike, end: ArrayLike) -> Occupancy:
    """Return how intervals overlap.

    Args:
        start: [n] where each begins.
        end: [n] where it ends, behind its start.
    """
    first, last = np.asarray(start, np.float64), np.asarray(end, np.float64)
    if not first.size:
        return Occupancy(0.0, first, first)
    edges, places = np.unique(np.concatenate((first, last)), return_inverse=True)
    change = np.zeros(edges.size)
    np.add.at(change, places[: first.size], 1)
    np.add.at(change, places[first.size :], -1)
    running = np.cumsum(change)[:-1]
    lengths = np.diff(edges)
    begin, stop = places[: first.size], places[first.size :]

    def between(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        until = np.concatenate(([0.0], np.cumsum(weight * lengths)))
        return until[stop] - until[begin]

    return Occupancy(
        busy=float(lengths[running > 0].sum()),
        exclusive=between((running == 1).astype(np.float64)),
        shared=between(1 / np.maximum(running, 1)),
    )
