"""Right kernels that are written in another way than the reference: none of them is rejected.

Each file in submissions/ is named after the problem that it is for and what is different about it. They are written to
be right in many ways and not to be fast: some make a launch for every bag, some hold a matrix of all bags and all rows.
So they are judged at the small size, on a GPU too; at the full one the baselines and the solutions are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from dlrm_bench.correctness.compare import compare
from dlrm_bench.correctness.judge import fresh_seed, judge
from dlrm_bench.correctness.oracle import DTYPES, Oracle
from dlrm_bench.problems import DEFAULT_CASE, Problem, ProblemSet
from dlrm_bench.records import Precision
from dlrm_bench.sandbox.child import ChildPool
from dlrm_bench.sandbox.limits import Limits

FOLDER = Path(__file__).parent / "submissions"
FEWEST_VARIANTS = 3
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FRESH_SEEDS = 200


@dataclass(frozen=True)
class Variant:
    """A right kernel, and the precisions that it is judged in: all for the first of a problem, one for the others."""

    path: Path
    precisions: tuple[Precision, ...]

    @property
    def problem(self) -> int:
        return int(self.path.stem.split("_")[0])


def variants() -> Iterator[Variant]:
    paths = sorted(FOLDER.glob("*.py"), key=lambda path: (int(path.stem.split("_")[0]), path.stem))
    for number, several in groupby(paths, key=lambda path: path.stem.split("_")[0]):
        for place, path in enumerate(several):
            yield Variant(path, (PRECISIONS[(int(number) + place) % len(PRECISIONS)],) if place else PRECISIONS)


VARIANTS = list(variants())
FIRST = [each for each in VARIANTS if each.precisions == PRECISIONS]


@pytest.fixture(scope="module")
def children(where: torch.device) -> Iterator[ChildPool]:
    with closing(ChildPool(where, Limits(), spares=1)) as pool:
        yield pool


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.path.stem)
def test_it_is_accepted(variant: Variant, children: ChildPool, problems: ProblemSet) -> None:
    with closing(children.take()) as child:
        child.load(variant.path.read_text())
        for precision in variant.precisions:
            verdict = judge(child, problems.find(variant.problem), size="small", precision=precision)
            assert verdict.correct, f"{precision}: {verdict.reasons[0].message}"


def test_every_problem_has_enough_variants(problem: Problem) -> None:
    assert sum(variant.problem == problem.id for variant in VARIANTS) >= FEWEST_VARIANTS


def test_every_precision_is_judged_for_every_problem(problem: Problem) -> None:
    judged = [each for variant in VARIANTS if variant.problem == problem.id for each in variant.precisions]
    assert set(judged) == set(PRECISIONS)
    assert len(judged) >= len(PRECISIONS) + FEWEST_VARIANTS - 1


@pytest.mark.slow
@pytest.mark.parametrize("variant", FIRST, ids=lambda variant: variant.path.stem)
def test_it_is_accepted_on_any_data(variant: Variant, problems: ProblemSet, where: torch.device) -> None:
    oracle = Oracle(problems.find(variant.problem), "small", DEFAULT_CASE, "bf16", where)
    names: dict[str, Any] = {}
    exec(compile(variant.path.read_text(), variant.path, "exec"), names)
    for _ in range(FRESH_SEEDS):
        seed = fresh_seed()
        oracle.rebuild(seed)
        torch.manual_seed(seed)
        with where:
            model = names["ModelNew"](*oracle.init_inputs).to(DTYPES["bf16"])
        trial = oracle.trial(fresh_seed())
        with torch.no_grad():
            reasons, _ = compare(model(*trial.inputs), trial, DEFAULT_CASE)
        assert not reasons, reasons[0].message
