"""The clock is right about submissions whose time is known, and refuses those that have none."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from dlrm_bench import lineup
from dlrm_bench.correctness.bench import Bench, Block
from dlrm_bench.evaluate import Settings, evaluate
from dlrm_bench.problems import Problem
from dlrm_bench.records import Kernel, Measurement, Reason, Result, SecondClock
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.kernels import busy
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.sandbox.messages import Profiled
from dlrm_bench.submissions import Submission
from dlrm_bench.timing.clock import more_outside_us, refuse
from dlrm_bench.timing.contestant import Contestant
from dlrm_bench.timing.race import Race
from dlrm_bench.timing.second_clock import refuse_hidden, second_clock

CODE = """
import time
import torch
from torch import nn

MILLISECONDS = 2.0


def wait(x, milliseconds):
    if x.is_cuda:
        torch.cuda._sleep(int(milliseconds * 1.8e6))
    else:
        time.sleep(milliseconds / 1e3)


class Model(nn.Module):
    def __init__(self, milliseconds):
        super().__init__()
        self.milliseconds = milliseconds

    def forward(self, x):
        wait(x, self.milliseconds)
        return x * 2


def get_init_inputs():
    return [MILLISECONDS]


def get_inputs():
    return [torch.randn(16, 8)]
"""
PROBLEM = Problem(1, "Wait", CODE)
HEAD = """

class ModelNew(Model):
    def __init__(self, milliseconds):
        super().__init__(milliseconds)
        self.calls, self.seen = 0, {}

    def forward(self, x):
        self.calls += 1
"""
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
on_both = pytest.mark.parametrize("device", DEVICES)


def run(body: str, device: str) -> Result:
    source = CODE + HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    where = torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
    settings = Settings(where, "full", "fp32", effort="quick", baselines=("eager",))
    return evaluate(Submission("known", PROBLEM, source), settings)


def timed(body: str, device: str) -> tuple[Measurement, float]:
    result = run(body, device)
    assert result.correct, result.verdict.reasons[0].message
    assert result.measurement is not None
    [eager] = result.measurement.comparisons
    assert eager.speedup is not None
    return result.measurement, eager.speedup


@on_both
def test_the_same_is_a_tie(device: str) -> None:
    measurement, speedup = timed("return super().forward(x)", device)
    assert measurement.comparisons[0].outcome == "tie"
    assert speedup == pytest.approx(1, abs=0.1)
    assert measurement.control == pytest.approx(1, abs=0.1)


@on_both
def test_half_the_time_is_a_win_of_two(device: str) -> None:
    measurement, speedup = timed("wait(x, 1.0)\nreturn x * 2", device)
    assert measurement.comparisons[0].outcome == "win"
    assert speedup == pytest.approx(2, rel=0.15)


@pytest.mark.slow
@on_both
def test_twice_the_time_is_a_loss(device: str) -> None:
    measurement, speedup = timed("wait(x, 4.0)\nreturn x * 2", device)
    assert measurement.comparisons[0].outcome == "loss"
    assert speedup == pytest.approx(0.5, rel=0.15)


@pytest.mark.slow
@on_both
def test_a_time_of_two_kinds_counts_as_its_mean(device: str) -> None:
    _, speedup = timed("wait(x, 0.5 if self.calls % 2 else 3.5)\nreturn x * 2", device)
    assert speedup == pytest.approx(1, rel=0.25)


@pytest.mark.slow
@on_both
def test_next_to_no_work_is_measured(device: str) -> None:
    measurement, speedup = timed("return x * 2", device)
    assert measurement.median_us < 200
    assert speedup > 10


@on_both
def test_keeping_answers_gains_nothing(device: str) -> None:
    body = (
        "key = float(x.sum())\n"
        "if key not in self.seen: self.seen[key] = super().forward(x)\n"
        "return self.seen[key].clone()"
    )
    _, speedup = timed(body, device)
    assert speedup == pytest.approx(1, rel=0.15)


@on_both
def test_work_in_the_first_calls_alone_is_refused(device: str) -> None:
    body = "if self.calls <= 90: self.last = super().forward(x)\nreturn self.last.clone()"
    result = run(body, device)
    assert result.measurement is None
    assert result.verdict.reasons[0].reason == "wrong_while_timed"


@pytest.mark.gpu
def test_work_that_nobody_waits_for_is_refused() -> None:
    body = (
        "self.side = getattr(self, 'side', None) or torch.cuda.Stream()\n"
        "if self.calls < 90: return super().forward(x)\n"
        "output = torch.empty_like(x)\n"
        "with torch.cuda.stream(self.side):\n"
        "    wait(x, 2.0)\n    torch.mul(x, 2, out=output)\n"
        "return output"
    )
    result = run(body, "cuda")
    assert result.measurement is None
    assert result.verdict.reasons[0].reason in ("time_not_explained", "wrong_while_timed", "not_repeatable")


@pytest.mark.gpu
def test_what_the_host_does_shows_beside_the_gpu_time() -> None:
    measurement, _ = timed("import time\ntime.sleep(0.0004)\nwait(x, 1.0)\nreturn x * 2", "cuda")
    assert measurement.median_us == pytest.approx(1e3, rel=0.2)
    measurement, _ = timed("import time\ntime.sleep(0.004)\nreturn x * 2", "cuda")
    assert measurement.host_us > 3e3
    assert measurement.second_clock is not None
    assert measurement.second_clock.kernel_us < 100


@pytest.mark.gpu
def test_a_host_that_has_become_slower_does_not_count() -> None:
    body = "import time\ntime.sleep(0.0001 if self.calls < 200 else 0.0007)\nwait(x, 0.3)\nreturn x * 2"
    measurement, _ = timed(body, "cuda")
    assert measurement.host_us < 600
    assert measurement.median_us == pytest.approx(300, rel=0.2)


@pytest.mark.parametrize(("late", "allowance"), [([0, 0, 0], 1.0), ([0, 2, 0], 1.5), ([1] * 9, 4.0)])
def test_a_gpu_is_kept_busy_for_longer_once_the_host_was_late(late: list[int], allowance: float) -> None:
    with closing(Child(torch.device("cpu"), Limits())) as child:
        contestant = Contestant("slow", Bench(child, "default"))
        for each in late:
            contestant.add(Block([5.0, 6.0], 100.0, each), 2, 0.0)
    assert contestant.allowance == allowance
    assert len(contestant.block_us) == len(late)


@pytest.mark.parametrize(
    ("times", "kernels", "agrees", "note"),
    [
        ([100.0, 102.0], [Kernel("a", 1, 99.0)], True, ""),
        ([100.0], [Kernel("a", 10, 65.0)], True, ""),
        ([100.0], [Kernel("a", 1, 50.0)], False, "50.0 us a call lie between its 1 launches"),
        ([100.0], [Kernel("a", 2, 90.0), Kernel("b", 1, 90.0)], False, "80.0 us more than passed"),
        ([100.0], [], False, "no kernel ran"),
    ],
)
def test_two_clocks_agree_or_say_why_not(times: list[float], kernels: list[Kernel], agrees: bool, note: str) -> None:
    found = second_clock(Profiled(times, kernels, busy_us=90.0), host_us=30.0)
    assert found.agrees == agrees
    assert note in found.note
    assert found.busy_us == 90.0


@pytest.mark.parametrize(
    ("claimed", "busy_us", "believed"),
    [(100.0, 98.0, True), (100.0, 113.9, True), (100.0, 114.1, False), (40.0, 100.0, False), (2.0, 5.0, True)],
)
def test_a_time_is_refused_if_kernels_keep_the_gpu_busy_for_longer(
    claimed: float, busy_us: float, believed: bool
) -> None:
    # Two kernels side by side add up to more than passes, which is no fault.
    found = second_clock(Profiled([busy_us], [Kernel("a", 2, 2 * busy_us)], busy_us), host_us=30.0)
    reason = refuse_hidden(found, claimed)
    assert (reason is None) == believed
    if reason is not None:
        assert reason.reason == "time_not_explained"
        assert f"claims {claimed:.1f} us" in reason.message


def test_records_of_before_the_busy_time_was_looked_at_refuse_nothing() -> None:
    found = SecondClock(100.0, 300.0, [Kernel("a", 1, 300.0)], False, "kernels overlap")
    assert refuse_hidden(found, 100.0) is None


@pytest.mark.parametrize(
    ("spans", "total"),
    [
        ([], 0),
        ([(5, 9)], 4),
        ([(20, 30), (0, 10)], 20),
        ([(0, 10), (2, 4), (8, 15)], 15),
        ([(0, 10), (10, 12)], 12),
        ([(3, 3), (0, 5)], 5),
    ],
)
def test_a_gpu_is_busy_while_at_least_one_kernel_runs(spans: list[tuple[int, int]], total: int) -> None:
    assert busy(spans) == total


@pytest.mark.gpu
def test_streams_side_by_side_are_no_fault() -> None:
    body = (
        "self.side = getattr(self, 'side', None) or torch.cuda.Stream()\n"
        "now = torch.cuda.current_stream()\n"
        "self.side.wait_stream(now)\n"
        "with torch.cuda.stream(self.side): wait(x, 1.0)\n"
        "wait(x, 1.0)\n"
        "now.wait_stream(self.side)\n"
        "return x * 2"
    )
    measurement, _ = timed(body, "cuda")
    assert measurement.second_clock is not None
    assert measurement.second_clock.busy_us == pytest.approx(1000, rel=0.2)
    assert measurement.second_clock.kernel_us == pytest.approx(2000, rel=0.2)


@pytest.mark.gpu
def test_a_captured_graph_is_recorded_like_any_other_call() -> None:
    body = (
        "if getattr(self, 'graph', None) is None:\n"
        "    self.given, self.graph = x.clone(), torch.cuda.CUDAGraph()\n"
        "    super().forward(self.given)\n"
        "    with torch.cuda.graph(self.graph): self.kept = super().forward(self.given)\n"
        "self.given.copy_(x)\n"
        "self.graph.replay()\n"
        "return self.kept.clone()"
    )
    measurement, _ = timed(body, "cuda")
    assert measurement.second_clock is not None
    assert measurement.second_clock.agrees


@pytest.mark.parametrize(
    ("walls", "outside"),
    [
        ([130.0, 131.0, 129.0, 130.0], 0.0),
        # One block that somebody disturbed is no matter, and one that is honest hides no others.
        ([130.0, 900.0, 130.0, 130.0], 0.0),
        ([130.0, 190.0, 190.0, 190.0], 60.0),
        ([110.0, 110.0, 110.0, 110.0], -20.0),
    ],
)
def test_what_lies_outside_calls_is_held_against_a_baselines(walls: list[float], outside: float) -> None:
    with closing(Child(torch.device("cpu"), Limits())) as child:
        bench = Bench(child, "default")
        submission = Contestant("mine", bench, block_us=[100.0] * 4, wall_us=walls)
        alike = Contestant("alike", bench, block_us=[500.0] * 4, wall_us=[530.0] * 4)
        busier = Contestant("worse", bench, block_us=[50.0] * 4, wall_us=[60.0] * 4)
        gone = Contestant("gone", bench, Reason("timeout", "gone"), block_us=[1.0], wall_us=[1.0])
        assert more_outside_us(submission, [busier, alike, gone]) == outside
        assert more_outside_us(submission, [gone]) == 0.0


@pytest.mark.parametrize(
    ("beside_us", "baselines_us", "believed"),
    [
        # A block takes a host that has nothing else to do about 1 ms beside its calls, and a busy one more.
        (1000.0, [], True),
        (1000.0, [1000.0], True),
        (1800.0, [1700.0], True),
        (3000.0, [2900.0], True),
        (3000.0, [], False),
        (3000.0, [1000.0], False),
        (3000.0, [2900.0, 1000.0], True),
        (3000.0, [1000.0, 1000.0], False),
        (1800.0, [1000.0], False),
    ],
)
def test_a_short_call_is_believed_on_a_busy_host_and_hides_nothing(
    beside_us: float, baselines_us: list[float], believed: bool
) -> None:
    calls, rounds = 16, 6

    def contestant(block_us: float, beside_us: float) -> Contestant:
        return Contestant("", bench, block_us=[block_us] * rounds, wall_us=[block_us + beside_us / calls] * rounds)

    with closing(Child(torch.device("cpu"), Limits())) as child:
        bench = Bench(child, "default")
        race = cast(Race, SimpleNamespace(costs=None))
        baselines = [contestant(180.0, each) for each in baselines_us]
        found = refuse(contestant(5.0, beside_us), baselines, race, calls, None)
    assert (found is None) == believed, found


@pytest.mark.parametrize("refusals", [0, 1, 2, 3])
def test_a_refused_time_is_measured_again(refusals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Reason("time_not_explained", "the host was busy")] * refusals + [None]
    asked = []

    def answer(*arguments: object) -> Reason | None:
        asked.append(arguments)
        return answers[len(asked) - 1]

    monkeypatch.setattr(lineup, "refuse", answer)
    result = run("return super().forward(x)", "cpu")
    assert len(asked) == min(refusals + 1, lineup.MOST_RACES)
    assert result.correct == (refusals < lineup.MOST_RACES)
    if result.measurement is not None:
        assert len(result.measurement.block_us) == 12
    else:
        assert [reason.message for reason in result.verdict.reasons] == ["the host was busy"]


@pytest.mark.parametrize("times", [[], [1.0], [1.0] * 3, [1.0, 0.0], [1.0, float("nan")], [float("inf"), 1.0]])
def test_a_block_without_one_time_a_call_is_refused(times: list[float]) -> None:
    with closing(Child(torch.device("cpu"), Limits())) as child:
        contestant = Contestant("liar", Bench(child, "default"))
        contestant.add(Block(times, 100.0, 0), 2, 0.0)
    assert contestant.reason is not None
    assert contestant.reason.reason == "time_not_explained"
    assert contestant.block_us == []
