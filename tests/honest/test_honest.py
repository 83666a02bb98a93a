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

from dlrm_bench.correctness.compare import METRICS, compare, times_the_threshold
from dlrm_bench.correctness.judge import fresh_seed, judge
from dlrm_bench.correctness.oracle import DTYPES, Oracle, Trial
from dlrm_bench.problems import DEFAULT_CASE, Problem, ProblemSet
from dlrm_bench.records import Precision
from dlrm_bench.sandbox.child import ChildPool
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import baseline

FOLDER = Path(__file__).parent / "submissions"
FEWEST_VARIANTS = 3
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FRESH_SEEDS = 200
MARGIN_SEEDS = 20
MOST_OF_A_THRESHOLD = 0.8


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
@torch.no_grad()
@pytest.mark.parametrize("variant", FIRST, ids=lambda variant: variant.path.stem)
def test_it_is_accepted_on_any_data(variant: Variant, problems: ProblemSet, where: torch.device) -> None:
    oracle = Oracle(problems.find(variant.problem), "small", DEFAULT_CASE, "bf16", where)
    for trial, [model] in drawn(oracle, [variant.path.read_text()], FRESH_SEEDS, where):
        reasons, _ = compare(model(*trial.inputs), trial, DEFAULT_CASE)
        assert not reasons, reasons[0].message


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.filterwarnings("ignore::DeprecationWarning:fbgemm_gpu")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_none_comes_near_a_threshold(
    problem_case: tuple[Problem, str], precision: Precision, where: torch.device
) -> None:
    """A single draw says little: who comes near a threshold on some of these is beyond it on one of thousands."""
    problem, case = problem_case
    texts = [variant.path.read_text() for variant in VARIANTS if variant.problem == problem.id]
    codes = [baseline("fbgemm", problem).source, *(text for text in texts if "torch.compile" not in text)]
    oracle = Oracle(problem, "small", case, precision, where)
    for trial, models in drawn(oracle, codes, MARGIN_SEEDS, where):
        for model in models:
            output = model(*(each.clone() for each in trial.inputs))
            reasons, record = compare(output, trial, case)
            assert not reasons, reasons[0].message
            share = max(times_the_threshold(kind, record.metrics, record.thresholds) for kind in METRICS)
            assert trial.exact is not None or share < MOST_OF_A_THRESHOLD, record


def drawn(
    oracle: Oracle, codes: list[str], seeds: int, where: torch.device
) -> Iterator[tuple[Trial, list[torch.nn.Module]]]:
    """Build submissions in this process and draw inputs, each time with fresh weights."""
    spaces: list[dict[str, Any]] = [{"__name__": "submission"} for _ in codes]
    for space, code in zip(spaces, codes, strict=True):
        exec(code, space)
    for _ in range(seeds):
        seed = fresh_seed()
        oracle.rebuild(seed)
        models = []
        for space in spaces:
            torch.manual_seed(seed)
            with where:
                models.append(space["ModelNew"](*oracle.init_inputs).to(DTYPES[oracle.precision]))
        yield oracle.trial(fresh_seed()), models
