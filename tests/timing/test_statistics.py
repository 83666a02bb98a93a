from __future__ import annotations

import numpy as np
import pytest

from dlrm_bench.timing.clock import outcome
from dlrm_bench.timing.statistics import Interval, distance, median_interval, paired_speedup, widened

ROUNDS, REPETITIONS = 20, 300


def simulate(ratio: float, seed: int, sigma: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Return block times of a submission and of a baseline `ratio` times as slow, on a machine whose speed drifts."""
    draw = np.random.default_rng(seed)
    drift = np.exp(draw.normal(0, 0.5, (ROUNDS, 1)))
    submission, baseline = (drift * np.exp(draw.normal(0, sigma, (ROUNDS, 2))) for _ in range(2))
    return 10 * submission, 10 * ratio * baseline


# --- the median and its interval -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "median"), [([3.0], 3.0), ([1.0, 2.0], 1.5), ([1.0, 9.0, 2.0], 2.0), ([5, 1, 4, 2], 3.0)]
)
def test_the_median_of_some_values_lies_within_its_interval(values: list[float], median: float) -> None:
    interval = median_interval(values)
    assert interval.median == median
    assert min(values) <= interval.low <= median <= interval.high <= max(values)


@pytest.mark.parametrize("values", [[3.0], [3.0] * 7])
def test_equal_values_have_an_interval_of_no_width(values: list[float]) -> None:
    assert median_interval(values) == (3.0, 3.0, 3.0)


def test_an_interval_narrows_with_the_count_of_values() -> None:
    values = np.random.default_rng(0).normal(1, 0.1, 1000)
    widths = [high - low for _, low, high in (median_interval(values[:count]) for count in (10, 100, 1000))]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_an_interval_depends_on_its_seed_alone() -> None:
    values = np.random.default_rng(0).normal(1, 0.1, 50)
    assert median_interval(values) == median_interval(values.tolist())
    assert median_interval(values) != median_interval(values, seed=1)


# --- speedups ------------------------------------------------------------------------------------


def test_a_speedup_is_the_baselines_time_over_the_submissions() -> None:
    assert paired_speedup([[10, 10]], [[20, 40]]).median == 3.0
    assert paired_speedup([[20, 40]], [[10, 10]]).median == pytest.approx(1 / 3)


def test_a_speedup_pairs_within_a_round_so_that_drift_cancels() -> None:
    submission = np.array([[10.0, 10.0], [100.0, 100.0], [1.0, 1.0]])
    assert paired_speedup(submission, 2 * submission) == (2.0, 2.0, 2.0)


def test_the_interval_holds_the_true_speedup_in_about_95_of_100_repetitions() -> None:
    intervals = [paired_speedup(*simulate(1.25, seed)) for seed in range(REPETITIONS)]
    held = {ratio: np.mean([each.low <= ratio <= each.high for each in intervals]) for ratio in (1.25, 1.4)}
    assert 0.91 <= held[1.25] <= 0.99
    assert held[1.4] == 0


# --- noise ---------------------------------------------------------------------------------------


def test_equal_runs_have_no_noise() -> None:
    blocks = [[10.0, 10.0], [12.0, 12.0], [9.0, 9.0]]
    assert distance(paired_speedup(blocks, blocks)) == 0


@pytest.mark.parametrize(("ratio", "noise"), [(1.03, 0.03), (0.8, 0.2)])
def test_a_run_that_always_differs_is_all_noise(ratio: float, noise: float) -> None:
    assert distance(paired_speedup([[10.0, 10.0]] * 9, [[10 * ratio, 10 * ratio]] * 9)) == pytest.approx(noise)


def test_noise_is_the_farther_end_of_the_interval() -> None:
    quiet, loud = (distance(paired_speedup(*simulate(1.0, 0, sigma))) for sigma in (0.001, 0.1))
    assert 0 < quiet < 0.002
    assert 0.02 < loud < 0.2


@pytest.mark.parametrize(
    ("low", "high", "noise", "expected"),
    [
        (1.02, 1.04, 0.005, "win"),
        (1.004, 1.04, 0.005, "tie"),
        (0.99, 1.02, 0.005, "tie"),
        (0.96, 0.98, 0.005, "loss"),
        (0.96, 0.996, 0.005, "tie"),
        (1.3, 1.4, 0.5, "tie"),
        (0.7, 0.8, 2.0, "tie"),
    ],
)
def test_what_counts_is_an_interval_with_the_noise_on_both_sides(
    low: float, high: float, noise: float, expected: str
) -> None:
    found = widened(Interval(1.0, low, high), noise)
    assert found.low < low < high < found.high
    assert outcome(found) == expected
