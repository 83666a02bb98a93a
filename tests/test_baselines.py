"""Eager and the library baseline are correct on every case in every precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import get_args

import pytest
import torch

from dlrm_bench.correctness.judge import judge
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import Precision
from dlrm_bench.sandbox.child import ChildPool
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import baseline

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@pytest.fixture(scope="module")
def children() -> Iterator[ChildPool]:
    with closing(ChildPool(torch.device("cpu"), Limits(), spares=1)) as pool:
        yield pool


@pytest.mark.parametrize("name", ["eager", "fbgemm"])
def test_a_baseline_is_correct(children: ChildPool, problem: Problem, name: str) -> None:
    with closing(children.take()) as child:
        child.load(baseline(name, problem).source)
        for precision in PRECISIONS:
            verdict = judge(child, problem, size="small", precision=precision)
            assert verdict.reasons == [], precision


@pytest.mark.slow
def test_inductor_is_correct_on_the_default_case(children: ChildPool, problem: Problem) -> None:
    with closing(children.take()) as child:
        child.load(baseline("inductor", problem).source)
        assert judge(child, problem, size="small", precision="fp32", cases=(DEFAULT_CASE,)).reasons == []
