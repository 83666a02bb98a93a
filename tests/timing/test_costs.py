from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from dlrm_bench.errors import UsageError
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import Costs
from dlrm_bench.timing.costs import count_costs, evaluate_expression

INT64, FLOAT = 8, 4


def count(problem: Problem, constants: Mapping[str, Any], model: torch.nn.Module, *inputs: object) -> Costs:
    """Count a call's costs, with an input a list of row ids or boundaries, or a tensor."""
    names = list(inspect.signature(model.forward).parameters)
    tensors = [each if isinstance(each, torch.Tensor) else torch.tensor(each, dtype=torch.int64) for each in inputs]
    with torch.no_grad():
        output = model(*tensors)
    everything = {**problem.defaults, **constants}
    costs = count_costs(problem, everything, dict(zip(names, tensors, strict=True)), model, output.nbytes)
    assert costs is not None
    return costs


# --- worked out by hand --------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    ("indices", "distinct"), [([0, 1, 3], 3), ([0, 0, 3], 2), ([4, 4, 4], 1)], ids=["distinct", "repeated", "one row"]
)
def test_costs_of_one_table(
    problems: ProblemSet, indices: list[int], distinct: int, dtype: torch.dtype, size: int
) -> None:
    problem = problems.find("EmbeddingBagSum")
    rows, dim, bags = 5, 4, 2
    model = problem.namespace()["Model"](rows, dim, 1.0).to(dtype)
    moved_once = 3 * INT64 + (bags + 1) * INT64 + bags * dim * size
    assert count(problem, {"ROWS": rows, "DIM": dim}, model, indices, [0, 2, 3]) == Costs(
        compulsory_bytes=moved_once + distinct * dim * size,
        algorithmic_bytes=moved_once + 3 * dim * size,
        flops=3 * dim,
        lookups=3,
        distinct_rows=distinct,
    )


def test_costs_of_tables_of_several_widths(problems: ProblemSet) -> None:
    problem = problems.find("WeightedEmbeddingBagMixedDim")
    constants = {"ROWS": [3, 2], "DIMS": [2, 8]}
    model = problem.namespace()["Model"](*constants.values(), 1.0)
    # Rows 0, 0 and 2 of the narrow table, and row 1 of the wide one, in two bags each.
    costs = count(problem, constants, model, [0, 0, 2, 1], [0, 2, 3, 3, 4], torch.ones(4))
    moved_once = (4 + 5) * INT64 + 4 * FLOAT + 2 * (2 + 8) * FLOAT
    assert costs == Costs(
        compulsory_bytes=moved_once + (2 * 2 + 1 * 8) * FLOAT,
        algorithmic_bytes=moved_once + (3 * 2 + 1 * 8) * FLOAT,
        flops=2 * 4 * 5,
        lookups=4,
        distinct_rows=3,
    )


@pytest.mark.parametrize(("longest", "needed"), [(2, 4), (1, 2), (3, 5), (100, 5)])
def test_items_that_are_cut_off_are_not_counted(problems: ProblemSet, longest: int, needed: int) -> None:
    problem = problems.find("JaggedToPadded")
    dim = 4
    model = problem.namespace()["Model"](longest)
    costs = count(problem, {"MAX_LENGTH": longest}, model, torch.ones(5, dim), [0, 3, 5])
    moved = needed * dim * FLOAT + 3 * INT64 + 2 * longest * dim * FLOAT
    assert costs == Costs(pytest.approx(moved), pytest.approx(moved), 0.0, 0, 0)


def test_weights_outside_of_tables_are_moved_once(problems: ProblemSet) -> None:
    problem = problems.find("LowRankCrossInteraction")
    features, rank, layers, batch = 6, 2, 3, 5
    model = problem.namespace()["Model"](features, rank, layers, 1.0)
    constants = {"FEATURES": features, "RANK": rank, "LAYERS": layers, "BATCH": batch}
    moved = (2 * batch * features + layers * (2 * features * rank + features)) * FLOAT
    flops = batch * layers * (4 * features * rank + 3 * features)
    assert count(problem, constants, model, torch.ones(batch, features)) == Costs(moved, moved, flops, 0, 0)


# --- every problem -------------------------------------------------------------------------------


def test_compulsory_bytes_hold_inputs_and_output_and_stay_below_algorithmic_ones(
    problem_case: tuple[Problem, str], draw: Callable[..., Any]
) -> None:
    problem, case = problem_case
    drawn = draw(problem.namespace("small", case))
    constants = problem.constants("small", case)
    costs = count(problem, constants, drawn.model, *drawn.inputs)
    assert 0 <= costs.compulsory_bytes <= costs.algorithmic_bytes
    assert costs.compulsory_bytes >= drawn.output().nbytes
    assert (costs.compulsory_bytes < costs.algorithmic_bytes) == (costs.distinct_rows < costs.lookups)
    assert costs.flops >= 0


def test_a_problem_without_a_card_has_no_costs() -> None:
    assert count_costs(Problem(1, "Bare", ""), {}, {}, torch.nn.Identity(), 0) is None


# --- expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("2 ** 10", 1024),
        ("n * (n - 1) / 2", 10),
        ("DIMS", [2, 8]),
        ("sum(DIMS) / len(DIMS)", 5),
        ("max(n, 3) - min(DIMS)", 3),
    ],
)
def test_arithmetic_over_names_is_evaluated(text: str, value: object) -> None:
    assert evaluate_expression(text, {"n": 5, "DIMS": [2, 8]}) == value


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "__import__('os')",
        "print(n)",
        "n.real",
        "DIMS[0]",
        "(lambda: n)()",
        "[n for n in DIMS]",
        "'text'",
        "n if n else 1",
        "n < 3",
        "max(*DIMS)",
        "sum(DIMS, start=1)",
        "n % 2",
        "n +",
        "",
    ],
)
def test_anything_but_arithmetic_over_known_names_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not arithmetic"):
        evaluate_expression(text, {"n": 5, "DIMS": [2, 8]})
