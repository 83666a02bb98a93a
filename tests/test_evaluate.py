"""The evaluator as a whole: what it does meanwhile, and what it does not wait for."""

from __future__ import annotations

import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dlrm_bench.correctness import judge, probes
from dlrm_bench.engines.local import run_all
from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.lineup import Entrance
from dlrm_bench.problems import Problem
from dlrm_bench.records import Verdict
from dlrm_bench.sandbox.child import Child, ChildPool
from dlrm_bench.submissions import Submission

SECONDS = 100
CODE = f"""
import os, time
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        if "dlrm_bench_" in os.environ["HOME"]:
            time.sleep({SECONDS})

    def forward(self, x):
        return x * 2


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(16, 8)]
"""
PLAIN = CODE.replace(f"time.sleep({SECONDS})", "pass")
WRONG = """
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 3
"""
RIGHT_ONCE = """
from torch import nn

built = 0


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        global built
        built += 1

    def forward(self, x):
        return x * (1 + built)
"""
"""The judge builds a model for each case."""


def test_a_wrong_submission_waits_for_no_baseline() -> None:
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    start = time.monotonic()
    with closing(Evaluator(settings, spares=0)) as evaluator:
        assert evaluator.evaluate(Submission("wrong", Problem(1, "Slow", CODE), WRONG)).status == "incorrect"
    assert time.monotonic() - start < SECONDS / 2


@pytest.mark.parametrize(("factor", "children"), [(2, 4), (3, 2)], ids=["right", "wrong"])
def test_only_what_passes_the_default_case_takes_children_for_the_clock(
    monkeypatch: pytest.MonkeyPatch, factor: int, children: int
) -> None:
    taken: list[Child] = []
    take = ChildPool.take
    monkeypatch.setattr(ChildPool, "take", lambda pool: taken.append(take(pool)) or taken[-1])
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    entry = Submission("mine", Problem(1, "Plain", PLAIN), WRONG.replace("x * 3", f"x * {factor}"))
    with closing(Evaluator(settings, spares=0)) as evaluator:
        assert evaluator.evaluate(entry).correct == (factor == 2)
    assert len(taken) == children
    assert not any(each.workspace.exists() for each in taken)


@pytest.mark.parametrize(("factor", "status"), [(2, "correct"), (3, "incorrect")])
def test_a_problem_that_fills_a_device_is_judged_with_fewer_trials(
    monkeypatch: pytest.MonkeyPatch, factor: int, status: str
) -> None:
    monkeypatch.setattr(judge, "LARGE_BYTES", 0)
    monkeypatch.setattr(probes, "GIVEN_BYTES", 0)
    settings = Settings(torch.device("cpu"), "full", "bf16", effort=None)
    entry = Submission("mine", Problem(1, "Plain", PLAIN), WRONG.replace("x * 3", f"x * {factor}"))
    with closing(Evaluator(settings, spares=0)) as evaluator:
        result = evaluator.evaluate(entry)
    assert result.status == status
    if result.correct:
        assert [each.case for each in result.verdict.metrics].count("default") == judge.LARGE_TRIALS


def test_what_is_wrong_on_a_later_case_leaves_nothing_of_its_way_to_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Entrance] = []
    begin = Entrance.begin
    monkeypatch.setattr(Entrance, "begin", lambda entrance: (begun.append(entrance), begin(entrance))[1])
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    with closing(Evaluator(settings, spares=0)) as evaluator:
        assert evaluator.evaluate(Submission("mine", Problem(1, "Plain", PLAIN), RIGHT_ONCE)).status == "incorrect"
    [entrance] = begun
    assert not any(contestant.bench.child.workspace.exists() for contestant, _ in entrance._entered)


@pytest.mark.slow
def test_baselines_of_several_problems_are_prepared_at_once() -> None:
    quick = CODE.replace(f"time.sleep({SECONDS})", "time.sleep(8)")
    problems = [Problem(number, f"Slow{number}", f"{quick}\nNUMBER = {number}\n") for number in (1, 2, 3)]
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    with closing(Evaluator(settings, spares=0)) as evaluator:
        evaluator.prepare(problems)
        start = time.monotonic()
        for lineup in evaluator._lineups.values():
            lineup.wait()
        assert len(evaluator._lineups) == len(problems)
        assert time.monotonic() - start < 8 * len(problems)
        evaluator.prepare(problems[:1])
        assert len(evaluator._lineups) == 1


@pytest.mark.slow
def test_every_submission_is_evaluated_once_however_many_problems_are_prepared() -> None:
    problems = [Problem(number, f"Plain{number}", f"{PLAIN}\nNUMBER = {number}\n") for number in (2, 1, 3)]
    submissions = [Submission("mine", problem, WRONG) for problem in problems]
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    assert [each.problem_id for each in run_all(submissions, settings, None, ahead=2)] == [1, 2, 3]


def test_a_problem_that_does_not_fit_is_a_result_and_the_next_one_runs() -> None:
    full = PLAIN.replace("return [torch.randn(16, 8)]", "raise torch.OutOfMemoryError('CUDA out of memory')")
    problems = [Problem(1, "Huge", full), Problem(2, "Plain", PLAIN)]
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    submissions = [Submission("mine", problem, WRONG.replace("x * 3", "x * 2")) for problem in problems]
    found = list(run_all(submissions, settings, None, ahead=2))
    assert [each.status for each in found] == ["unsupported", "correct"]
    assert "do not fit" in found[0].verdict.reasons[0].message


def test_what_has_no_room_beside_other_problems_baselines_is_evaluated_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = Evaluator._judge

    def judge_if_alone(evaluator: Evaluator, *arguments: Any) -> Verdict:
        if len(evaluator._lineups) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return alone(evaluator, *arguments)

    monkeypatch.setattr(Evaluator, "_judge", judge_if_alone)
    problems = [Problem(number, f"Plain{number}", f"{PLAIN}\nNUMBER = {number}\n") for number in (1, 2)]
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    with closing(Evaluator(settings, spares=0)) as evaluator:
        evaluator.prepare(problems)
        result = evaluator.evaluate(Submission("mine", problems[0], WRONG.replace("x * 3", "x * 2")))
        assert result.correct
        assert result.measurement is not None
        assert list(evaluator._lineups) == [problems[0].hash]


@pytest.mark.parametrize(
    ("device", "status", "baseline", "again"),
    [
        ("cuda", "out_of_memory", "correct", True),
        ("cuda", "correct", "out_of_memory", True),
        ("cuda", "correct", "correct", False),
        ("cuda", "incorrect", "correct", False),
        ("cpu", "out_of_memory", "correct", False),
    ],
)
def test_memory_that_others_hold_is_nobodys_fault(device: str, status: str, baseline: str, again: bool) -> None:
    evaluator = Evaluator.__new__(Evaluator)
    evaluator._settings = Settings(torch.device(device), "full", "fp32")
    measurement = SimpleNamespace(comparisons=[SimpleNamespace(status="correct"), SimpleNamespace(status=baseline)])
    assert evaluator._ran_out(SimpleNamespace(status=status), measurement) == again


def test_another_error_of_a_problem_is_raised() -> None:
    broken = PLAIN.replace("return [torch.randn(16, 8)]", "raise RuntimeError('a fault of the problem')")
    settings = Settings(torch.device("cpu"), "full", "fp32", effort=None)
    with closing(Evaluator(settings, spares=0)) as evaluator, pytest.raises(RuntimeError, match="a fault"):
        evaluator.evaluate(Submission("mine", Problem(1, "Broken", broken), WRONG))
