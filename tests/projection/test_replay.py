"""The replay of a step's launches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlrm_bench.projection.replay import Replay
from dlrm_bench.records import Launches

Kernel = tuple[float, float, float, int]


def launches(
    kernels: list[Kernel], waits: list[tuple[float, float]], wall: float, rows: list[int] | None = None
) -> Launches:
    """Lay out kernels, each (host, start, duration, stream); each is a row of its own unless rows are given."""
    host, start, duration, stream = ([*column] for column in zip(*kernels, strict=True))
    return Launches(
        row=rows or list(range(len(kernels))),
        stream=[int(each) for each in stream],
        host_us=host,
        start_us=start,
        duration_us=duration,
        waits_us=[begin for begin, _ in waits],
        waits_end_us=[end for _, end in waits],
        wall_us=wall,
    )


GPU_BOUND = launches([(0, 5, 100, 7), (10, 106, 200, 7), (20, 307, 50, 7)], [(30, 360)], 360)
HOST_BOUND = launches([(0, 5, 10, 7), (100, 105, 10, 7), (200, 205, 10, 7)], [(300, 305)], 305)


@pytest.mark.parametrize("made", [GPU_BOUND, HOST_BOUND])
def test_unchanged_launches_give_the_step_back(made: Launches) -> None:
    assert Replay(made).wall(np.ones(3)) == pytest.approx(made.wall_us)


def test_a_step_that_waits_for_the_gpu_is_as_much_shorter_as_the_kernel() -> None:
    assert Replay(GPU_BOUND).wall([1, 0.5, 1]) == pytest.approx(260)


def test_a_step_that_waits_for_the_host_gains_nothing() -> None:
    assert Replay(HOST_BOUND).wall([0.1, 0.1, 0.1]) == pytest.approx(305)


def test_a_step_becomes_bound_by_the_host_where_kernels_are_short_enough() -> None:
    # The host begins to wait at 30, when the GPU is done already.
    assert Replay(GPU_BOUND).wall([0.01, 0.01, 0.01]) == pytest.approx(30)


def test_slower_kernels_make_a_step_bound_by_the_gpu() -> None:
    assert Replay(HOST_BOUND).wall([30, 30, 30]) == pytest.approx(5 + 900 + 2 * 1, abs=10)


def test_a_kernel_beside_a_longer_one_saves_nothing() -> None:
    made = launches([(0, 5, 300, 7), (5, 10, 100, 8)], [(10, 310)], 310)
    assert Replay(made).wall([1, 0.1]) == pytest.approx(310)
    assert Replay(made).wall([0.5, 1]) == pytest.approx(160)


def test_a_kernel_that_waited_for_another_stream_waits_again() -> None:
    made = launches([(0, 5, 300, 7), (5, 307, 100, 8)], [(10, 410)], 410)
    assert Replay(made).wall([0.5, 1]) == pytest.approx(260)


def test_a_wait_in_the_middle_holds_the_host_up() -> None:
    made = launches([(0, 5, 100, 7), (120, 125, 100, 7)], [(10, 110), (130, 230)], 230)
    assert Replay(made).wall([1, 1]) == pytest.approx(230)
    assert Replay(made).wall([0.5, 1]) == pytest.approx(180)


def test_launches_that_become_one_spare_the_host_the_time_between_them() -> None:
    bags = [(10.0 * i, 5 + 51.0 * i, 50.0, 7) for i in range(10)]
    made = launches([*bags, (100, 515, 200, 7)], [(110, 715)], 715, rows=[0] * 10 + [1])
    assert Replay(made).wall([1, 1]) == pytest.approx(715)
    apart = Replay(made).wall([0.02, 1])
    assert apart == pytest.approx(5 + 90 + 1 + 10 + 200, abs=6)
    assert Replay(made).wall([0.02, 1], [list(range(10))]) == pytest.approx(apart - 90, abs=6)


def test_what_the_profiler_does_after_the_last_wait_is_no_part_of_the_step() -> None:
    assert Replay(launches([(0, 5, 100, 7)], [(10, 110)], 300)).wall([1]) == pytest.approx(110)
    assert Replay(launches([(0, 5, 100, 7), (120, 125, 50, 7)], [(10, 110)], 300)).wall([1, 1]) == pytest.approx(300)


def test_a_kernel_may_be_known_by_its_start_alone() -> None:
    made = launches([(5, 5, 100, 7), (106, 106, 100, 7)], [], 210)
    assert Replay(made).wall([1, 1]) == pytest.approx(210)


@given(
    st.lists(
        st.tuples(st.floats(0, 30), st.floats(0, 20), st.floats(1, 60), st.integers(7, 9)), min_size=1, max_size=20
    ),
    st.integers(0, 2**32 - 1),
)
def test_any_step_is_given_back_and_never_gets_longer_by_faster_kernels(
    drawn: list[tuple[float, float, float, int]], seed: int
) -> None:
    host, free, kernels = 0.0, {7: 0.0, 8: 0.0, 9: 0.0}, []
    for pause, latency, duration, stream in drawn:
        host += pause
        start = max(host + latency, free[stream])
        free[stream] = start + duration
        kernels.append((host, start, duration, stream))
    end = max(free.values())
    made = launches(kernels, [(host, max(end, host) + 3)], max(end, host) + 3)
    replay = Replay(made)
    same = replay.wall(np.ones(len(kernels)))
    assert same == pytest.approx(made.wall_us, abs=1e-6)
    faster = replay.wall(np.random.default_rng(seed).uniform(0.1, 1, len(kernels)))
    assert faster <= same + 1e-6
    assert faster >= same - sum(duration for _, _, duration, _ in kernels) - 1e-6
