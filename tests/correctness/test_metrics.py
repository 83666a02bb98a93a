from __future__ import annotations

from typing import get_args

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dlrm_bench.correctness import metrics
from dlrm_bench.correctness.metrics import UNIT_ROUNDOFF, Yardstick, as_rows
from dlrm_bench.records import Metrics, Precision

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PERFECT = Metrics(0.0, 0.0, 0.0, 0.0)
ROWS, COLUMNS = 2000, 64

precisions = st.sampled_from(get_args(Precision))
terms = st.sampled_from([1, 100, 100_000])
# Numbers that every precision holds without overflow or loss of digits, and zero.
magnitudes = st.floats(2.0**-10, 2.0**10, width=32)
numbers = st.just(0.0) | magnitudes | magnitudes.map(lambda x: -x)
shapes = arrays.array_shapes(min_dims=1, max_dims=3, max_side=6)


def tensors(shape: tuple[int, ...]) -> st.SearchStrategy[torch.Tensor]:
    return arrays.arrays(np.float64, shape, elements=numbers).map(torch.from_numpy)


pairs = shapes.flatmap(lambda shape: st.tuples(tensors(shape), tensors(shape)))


def failing(metrics: Metrics, thresholds: Metrics) -> set[str]:
    """Return which metrics are not below their thresholds, as the judge decides it."""
    fields = metrics.__struct_fields__
    return {name for name in fields if not getattr(metrics, name) <= getattr(thresholds, name)}


def judged(output: torch.Tensor, right: torch.Tensor, precision: Precision, count: int = 1) -> set[str]:
    """Return what fails when the reference itself made no error: the strictest thresholds there are."""
    yardstick = Yardstick.of(right)
    return failing(yardstick.measure(output), yardstick.thresholds(PERFECT, precision, count))


@pytest.fixture
def right() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


# --- what holds for any data ---------------------------------------------------------------------


@given(pairs, st.integers(-60, 60))
def test_scaling_both_sides_changes_nothing(pair: tuple[torch.Tensor, torch.Tensor], power: int) -> None:
    output, expected = pair
    assume(bool(expected.any()))
    factor = 2.0**power
    assert Yardstick.of(expected * factor).measure(output * factor) == Yardstick.of(expected).measure(output)


@pytest.mark.parametrize("power", [-60, 60])
def test_scaling_both_sides_changes_nothing_where_all_is_zero(power: int) -> None:
    zeros, output = torch.zeros(3, 4), torch.ones(3, 4)
    assert Yardstick.of(zeros).measure(output * 2.0**power) == Yardstick.of(zeros).measure(output)


@given(pairs)
def test_only_the_right_output_has_metrics_of_zero(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    output, expected = pair
    yardstick = Yardstick.of(expected)
    assert yardstick.measure(expected) == PERFECT
    assert (yardstick.measure(output) == PERFECT) == torch.equal(output, expected)


@given(shapes.flatmap(tensors), precisions, terms)
def test_the_correctly_rounded_output_passes(expected: torch.Tensor, precision: Precision, count: int) -> None:
    assert not judged(expected.to(DTYPES[precision]), expected, precision, count)


@given(shapes.flatmap(tensors), precisions, terms, numbers)
def test_zeros_and_constants_fail_where_the_output_has_a_spread(
    expected: torch.Tensor, precision: Precision, count: int, constant: float
) -> None:
    yardstick = Yardstick.of(expected)
    assume(0.1 * yardstick.norm < float((as_rows(expected) - as_rows(expected).mean(dim=0)).norm()))
    assume(yardstick.norm > 0)
    assert "relative_l2" in judged(torch.zeros_like(expected), expected, precision, count)
    for trivial in (constant, float(expected.mean()), expected.mean(dim=tuple(range(expected.dim() - 1)))):
        output = torch.zeros_like(expected) + trivial
        assert "centred_l2" in judged(output, expected, precision, count)


@given(shapes.flatmap(tensors), precisions, st.floats(0.0, 1.0))
def test_thresholds_are_a_multiple_of_the_references_own_error(
    expected: torch.Tensor, precision: Precision, error: float
) -> None:
    yardstick = Yardstick.of(expected)
    strict = yardstick.thresholds(PERFECT, precision, 1)
    loose = yardstick.thresholds(Metrics(error, error, error, error), precision, 1)
    averaged = 5 if expected.numel() < 32 else 3
    multiples = Metrics(relative_l2=averaged, worst_row=5, centred_l2=averaged, worst_element=5)
    for name in Metrics.__struct_fields__:
        assert getattr(loose, name) == max(getattr(strict, name), getattr(multiples, name) * error)


# --- what one kind of error does -----------------------------------------------------------------


@pytest.mark.parametrize("precision", DTYPES)
def test_the_right_output_passes_and_one_off_by_a_hundredth_fails(right: torch.Tensor, precision: Precision) -> None:
    rounded = right.to(DTYPES[precision])
    assert not judged(rounded, right, precision)
    assert "relative_l2" in judged(rounded * 1.01, right, precision)


def test_float32_does_not_pass_with_the_digits_of_a_shorter_type(right: torch.Tensor) -> None:
    tf32 = (right.float().view(torch.int32) & ~0x1FFF).view(torch.float32)
    assert "relative_l2" in judged(tf32, right, "fp32")
    assert "relative_l2" in judged(right.half(), right, "fp32")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_single_wrong_element_is_found_by_worst_element(right: torch.Tensor, precision: Precision) -> None:
    output = right.to(DTYPES[precision])
    output[1234, 56] += 100 * UNIT_ROUNDOFF[precision]
    failed = judged(output, right, precision)
    assert "worst_element" in failed
    assert "relative_l2" not in failed


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_wrong_row_is_found_by_worst_row(right: torch.Tensor, precision: Precision) -> None:
    output = right.to(DTYPES[precision])
    output[1234] *= 1.02
    failed = judged(output, right, precision)
    assert "worst_row" in failed
    assert "relative_l2" not in failed


def test_a_row_that_cancels_does_not_decide(right: torch.Tensor) -> None:
    right[7] *= 1e-6
    output = right.clone()
    output[7] = 0
    metrics = Yardstick.of(right).measure(output)
    assert metrics.worst_row == pytest.approx(1e-6, rel=0.5)


def test_a_constant_has_a_centred_l2_of_one_however_far_the_output_lies_from_zero(right: torch.Tensor) -> None:
    metrics = Yardstick.of(right * 1e-3 + 1).measure(torch.ones_like(right))
    assert metrics.relative_l2 == pytest.approx(1e-3, rel=0.01)
    assert metrics.centred_l2 == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("expected", [torch.ones(3, 4), torch.arange(12.0).view(3, 4), torch.zeros(3, 4)])
def test_one_element_that_is_not_finite_fails_every_metric(expected: torch.Tensor, value: float) -> None:
    output = expected.clone()
    output[1, 2] = value
    assert judged(output, expected, "bf16", 1_000_000) == set(Metrics.__struct_fields__)


# --- the ends of the range -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)])
def test_an_empty_output_is_perfect(shape: tuple[int, ...]) -> None:
    empty = torch.empty(shape)
    assert Yardstick.of(empty).measure(empty) == PERFECT
    assert not judged(empty, empty, "fp32")


def test_a_scalar_is_one_row_of_one_column() -> None:
    right = torch.tensor(3.0)
    assert as_rows(right).tolist() == [[3.0]]
    assert Yardstick.of(right).measure(torch.tensor(1.5)) == Metrics(0.5, 0.5, 0.5, 0.5)
    assert not judged(right, right, "fp32")
    assert judged(torch.tensor(3.001), right, "fp32") == set(Metrics.__struct_fields__)


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (7,), (1,)])
@pytest.mark.parametrize("value", [1.0, 1 / 3, -1e-20])
def test_a_constant_output_is_held_against_its_norm(shape: tuple[int, ...], value: float) -> None:
    right = torch.full(shape, value, dtype=torch.float64)
    yardstick = Yardstick.of(right)
    assert yardstick.spread == yardstick.norm
    assert not judged(right.float(), right, "fp32")
    assert "centred_l2" in judged(right * 1.001, right, "fp32")
    assert "centred_l2" in judged(torch.zeros_like(right), right, "fp32")


def test_an_output_of_zeros_is_passed_by_zeros_alone() -> None:
    zeros = torch.zeros(3, 4)
    assert not judged(zeros, zeros, "fp32")
    assert {"relative_l2", "centred_l2"} <= judged(torch.full_like(zeros, 1e-30), zeros, "fp32")


def test_rows_of_zeros_are_known() -> None:
    yardstick = Yardstick.of(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    assert yardstick.zero_rows.tolist() == [True, False, False]
    assert yardstick.row_scale.tolist() == [1.0, 5.0, 1.0]


@pytest.mark.parametrize(
    ("shape", "rows"), [((), (1, 1)), ((3,), (1, 3)), ((2, 3), (2, 3)), ((2, 3, 4), (6, 4)), ((0, 3), (0, 1))]
)
def test_a_row_runs_along_the_last_dimension(shape: tuple[int, ...], rows: tuple[int, int]) -> None:
    assert as_rows(torch.zeros(shape)).shape == rows


@pytest.mark.parametrize("elements", [1, 7, 40])
def test_metrics_are_the_same_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    right = torch.randn(11, 7, dtype=torch.float64)
    output = (right + 0.1 * torch.randn_like(right)).bfloat16()
    whole = Yardstick.of(right)
    measured = whole.measure(output)
    monkeypatch.setattr(metrics, "BLOCK_ELEMENTS", elements)
    assert Yardstick.of(right).spread == pytest.approx(whole.spread, rel=1e-12)
    in_blocks = msgspec.structs.asdict(Yardstick.of(right).measure(output))
    assert in_blocks == pytest.approx(msgspec.structs.asdict(measured), rel=1e-12)
