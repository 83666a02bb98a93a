"""Eager and the library baseline are correct on every case in every precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem
from dlrm_bench.records import Precision
from dlrm_bench.submissions import baseline


@pytest.fixture(scope="module", params=get_args(Precision))
def evaluator(request: pytest.FixtureRequest) -> Iterator[Evaluator]:
    running = Evaluator(Settings(torch.device("cpu"), "small", request.param, effort=None))
    yield running
    running.close()


@pytest.mark.parametrize("name", ["eager", "fbgemm"])
def test_a_baseline_is_correct(evaluator: Evaluator, problem: Problem, name: str) -> None:
    assert evaluator.evaluate(baseline(name, problem)).verdict.reasons == []


@pytest.mark.slow
def test_inductor_is_correct_on_the_default_case(problem: Problem) -> None:
    running = Evaluator(Settings(torch.device("cpu"), "small", "fp32", effort=None, cases=("default",)), spares=0)
    assert running.evaluate(baseline("inductor", problem)).verdict.reasons == []
    running.close()
