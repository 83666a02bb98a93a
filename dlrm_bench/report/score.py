"""What a model's samples are worth, as a table over models."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec
import numpy as np

from dlrm_bench.records import Estimate, Method, ModelScore, Projection, Result, Saving
from dlrm_bench.report.summary import BEST, compared
from dlrm_bench.timing.statistics import LEVEL, RESAMPLES

FAST_P = (0.0, 1.0, 2.0)
METHODS: tuple[Method, ...] = ("paper", "matched", "replay")
"""Of a projection, those that say what the samples would save; the bounds say what any could."""
SEED = 0
"""Of the resampling, fixed so that saved results give the same intervals again."""


def score(model: str, results: Sequence[Result], projection: Projection | None = None) -> ModelScore:
    """Sum up the samples of one model.

    Args:
        model: its name.
        results: one a sample, of at least one problem.
        projection: of `best_results`, if there is a trace.
    """
    by_problem = _by_problem(results)
    fewest = min(map(len, by_problem))
    best = best_results(model, results)
    won = [speedup_of(each) for each in best if _wins(each)]
    timed = not any(each.correct and each.measurement is None for each in results)
    return ModelScore(
        model=model,
        problems=len(by_problem),
        samples=len(results),
        fewest_samples=fewest,
        correct=_mean([statistics.fmean(each.correct for each in samples) for samples in by_problem]),
        win_rate=_mean([statistics.fmean(map(_wins, samples)) for samples in by_problem]) if timed else None,
        median_speedup_of_wins=_median(
            [[speedup_of(each) for each in samples if _wins(each)] for samples in by_problem]
        ),
        fast_p={
            f"{p:g}": _mean([statistics.fmean(speedup_of(each) > p for each in samples) for samples in by_problem])
            for p in FAST_P
            if timed
        },
        pass_at_k={
            str(k): _mean([pass_at_k(len(samples), sum(each.correct for each in samples), k) for samples in by_problem])
            for k in _ks(fewest)
        },
        problems_correct=sum(each.correct for each in best),
        problems_won=len(won) if timed else None,
        median_speedup_of_problems_won=statistics.median(won) if won else None,
        projection=projection,
    )


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Return the chance that k of these samples, drawn without putting back, hold a right one.

    That is the unbiased estimate of the chance that one of k fresh samples is right.
    """
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def best_results(model: str, results: Sequence[Result]) -> list[Result]:
    """Return the fastest right sample of each problem, or a wrong one if it has none, under the model's name."""
    best = [max(samples, key=speedup_of) for samples in _by_problem(results)]
    return [msgspec.structs.replace(each, submission=model) for each in best]


def speedup_of(result: Result) -> float:
    """Return a sample's speedup over the best baseline: 0 if it is wrong, next to nothing if it has no time."""
    if not result.correct:
        return 0.0
    comparison = compared(result, BEST)
    return comparison.speedup if comparison and comparison.speedup else float(np.finfo(np.float64).tiny)


def score_rows(scores: Sequence[ModelScore]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table, one row a model."""
    most = max((each.fewest_samples for each in scores), default=1)
    shown = [each.projection for each in scores if each.projection is not None]
    methods = [method for method in METHODS if any(each.saving(method) is not None for each in shown)]
    header = ["model", "samples on problems", "correct"]
    header += [f"pass@{most}"] if most > 1 else []
    header += ["win rate", "median win", *(f"fast_{p:g}" for p in FAST_P), "problems won", "median of these"]
    header += [f"saved, {method}" for method in methods]
    return header, [_row(each, most, methods) for each in scores]


def _row(each: ModelScore, most: int, methods: Sequence[Method]) -> list[str]:
    passed = [_share(each.pass_at_k.get(str(most)))] if most > 1 else []
    return [
        each.model,
        f"{each.samples} on {each.problems}",
        _share(each.correct),
        *passed,
        _share(each.win_rate),
        _times(each.median_speedup_of_wins),
        *(_share(each.fast_p.get(f"{p:g}")) for p in FAST_P),
        "-" if each.problems_won is None else f"{each.problems_won} of {each.problems}",
        "-" if each.median_speedup_of_problems_won is None else f"{each.median_speedup_of_problems_won:.2f}",
        *(_saved(each.projection.saving(method) if each.projection else None) for method in methods),
    ]


def _saved(saving: Saving | None) -> str:
    if saving is None:
        return "-"
    ends = saving.saved_low, saving.saved_high
    interval = "" if ends[0] is None or ends[1] is None else f" [{ends[0]:.1%}, {ends[1]:.1%}]"
    return f"{saving.saved:.1%}{interval}" + ("" if saving.valid else " (not valid)")


def _share(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.0%} [{estimate.low:.0%}, {estimate.high:.0%}]"


def _times(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _by_problem(results: Sequence[Result]) -> list[list[Result]]:
    names = dict.fromkeys(each.problem for each in results)
    return [[each for each in results if each.problem == name] for name in names]


def _wins(result: Result) -> bool:
    comparison = compared(result, BEST)
    return result.correct and comparison is not None and comparison.outcome == "win"


def _ks(fewest: int) -> list[int]:
    doubled = [1 << power for power in range(fewest.bit_length())]
    return sorted({*doubled, fewest})


def _mean(values: Sequence[float]) -> Estimate:
    sample = np.asarray(values, dtype=np.float64)
    return _estimate(float(sample.mean()), sample[_drawn(sample.size)].mean(axis=1))


def _median(values: Sequence[Sequence[float]]) -> Estimate | None:
    """Return the median over the values of all problems; the interval leaves out draws that have none."""
    if not any(values):
        return None
    draws = [np.concatenate([values[problem] for problem in draw]) for draw in _drawn(len(values))]
    medians = np.array([np.median(each) for each in draws if each.size])
    return _estimate(statistics.median(value for each in values for value in each), medians)


def _drawn(problems: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.random.default_rng(SEED).integers(0, problems, (RESAMPLES, problems))


def _estimate(value: float, resampled: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
