"""What a report says."""

from __future__ import annotations

from dlrm_bench.records.base import Record


class BaselineSummary(Record, frozen=True):
    """A submission over all its problems, beside one baseline.

    Attributes:
        baseline: its name; `best` is the fastest right one on each problem.
        compared: problems on which both were right and timed.
        wins: problems won.
        losses: problems lost.
        win_rate: wins over all problems evaluated.
        median_speedup_of_wins: median over the problems won.
        geometric_mean: of the speedups on all problems compared.
        fast_p: for each p, the share of all problems evaluated that are right and more than p times as fast.
    """

    baseline: str
    compared: int
    wins: int
    losses: int
    win_rate: float
    median_speedup_of_wins: float | None
    geometric_mean: float | None
    fast_p: dict[str, float]


class Summary(Record, frozen=True):
    """A submission over all its problems."""

    submission: str
    evaluated: int
    correct: int
    statuses: dict[str, int]
    against: list[BaselineSummary]


class Finding(Record, frozen=True):
    """What `doctor` has to say about one thing: whether it is fine, and the mend if not."""

    about: str
    fine: bool
    message: str
