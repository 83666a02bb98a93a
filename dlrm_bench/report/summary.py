"""The figures that sum up a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from dlrm_bench.records import BaselineSummary, Comparison, Result, Summary

FAST_P = (1.0, 1.5, 2.0)
BEST = "best"


def summarise(results: Sequence[Result]) -> list[Summary]:
    """Return one summary for each submission label, in the order in which they first occur."""
    labels = dict.fromkeys(result.submission for result in results)
    return [_summary(label, [each for each in results if each.submission == label]) for label in labels]


def best_of(comparisons: Iterable[Comparison]) -> Comparison | None:
    """Return the comparison with the fastest baseline that is itself right."""
    timed = [each for each in comparisons if each.median_us is not None]
    return min(timed, key=lambda each: each.median_us or 0.0) if timed else None


def compared(result: Result, baseline: str) -> Comparison | None:
    """Return a result's comparison with a baseline, or with the best of them."""
    if result.measurement is None:
        return None
    if baseline == BEST:
        return best_of(result.measurement.comparisons)
    found = [each for each in result.measurement.comparisons if each.baseline == baseline]
    return found[0] if found and found[0].speedup is not None else None


def _summary(label: str, results: list[Result]) -> Summary:
    names = dict.fromkeys(
        each.baseline for result in results if result.measurement for each in result.measurement.comparisons
    )
    return Summary(
        submission=label,
        evaluated=len(results),
        correct=sum(result.correct for result in results),
        statuses={
            status: sum(result.status == status for result in results)
            for status in dict.fromkeys(each.status for each in results)
        },
        against=[_against(name, results) for name in (*names, BEST)] if names else [],
    )


def _against(baseline: str, results: list[Result]) -> BaselineSummary:
    found = [each for each in (compared(result, baseline) for result in results) if each is not None]
    speedups = [each.speedup for each in found if each.speedup is not None]
    won = [each.speedup for each in found if each.outcome == "win" and each.speedup is not None]
    return BaselineSummary(
        baseline=baseline,
        compared=len(found),
        wins=len(won),
        losses=sum(each.outcome == "loss" for each in found),
        win_rate=len(won) / len(results),
        median_speedup_of_wins=statistics.median(won) if won else None,
        geometric_mean=statistics.geometric_mean(speedups) if speedups else None,
        fast_p={f"{p:g}": sum(speedup > p for speedup in speedups) / len(results) for p in FAST_P},
    )
