"""Hold one output against its trial and say, in words, what is wrong with it."""

from __future__ import annotations

import math

import torch

from dlrm_bench.correctness.causes import likely_cause
from dlrm_bench.correctness.metrics import as_rows, rows_of
from dlrm_bench.correctness.oracle import Trial
from dlrm_bench.records import CaseMetrics, Metrics, Reason, ReasonKind
from dlrm_bench.sandbox.messages import Called

METRICS: tuple[ReasonKind, ...] = ("relative_l2", "worst_row", "centred_l2", "worst_element")


def wrong_facts(called: Called, trial: Trial, case: str, device: torch.device) -> list[Reason]:
    """Return what is wrong with the kind of thing that `forward` returned: type, shape, dtype, device."""
    if called.kind != "Tensor":
        return [Reason("not_a_tensor", f"forward returned {called.kind}, expected one plain torch.Tensor", case)]
    wanted = str(trial.dtype).removeprefix("torch.")
    checks: list[tuple[ReasonKind, object, object]] = [
        ("wrong_shape", called.shape, trial.shape),
        ("wrong_dtype", called.dtype, wanted),
        ("wrong_device", called.device, device.type),
    ]
    return [
        Reason(kind, f"forward returned {kind.removeprefix('wrong_')} {got}, expected {expected}", case)
        for kind, got, expected in checks
        if got != expected
    ]


def compare(output: torch.Tensor, trial: Trial, case: str) -> tuple[list[Reason], CaseMetrics]:
    """Return what is wrong with the numbers of an output of the right shape and dtype, and its metrics."""
    if trial.not_finite is not None:
        reasons, output = _where_not_finite(output, trial.not_finite, case)
        if reasons:
            return reasons, CaseMetrics(case, trial.yardstick.measure(output), trial.thresholds)
    metrics = trial.yardstick.measure(output)
    record = CaseMetrics(case, metrics, trial.thresholds)
    if trial.exact is not None:
        return _inexact(output, trial.exact, case), record
    if output.is_floating_point() and not bool(output.isfinite().all()):
        return [_not_finite(output, case)], record
    failed = _failed(metrics, trial.thresholds)
    if not failed or _near_the_reference(output, trial):
        return _unclean_zero_rows(output, trial, case), record
    worst = max(failed, key=lambda kind: times_the_threshold(kind, metrics, trial.thresholds))
    return [_too_far(worst, metrics, output, trial, case)], record


def _near_the_reference(output: torch.Tensor, trial: Trial) -> bool:
    """Return whether an output is within its precision of the reference's own, where that counts."""
    return trial.other is not None and not _failed(trial.other.measure(output), trial.thresholds)


def _failed(metrics: Metrics, thresholds: Metrics) -> list[ReasonKind]:
    return [kind for kind in METRICS if times_the_threshold(kind, metrics, thresholds) > 1]


def times_the_threshold(kind: ReasonKind, metrics: Metrics, thresholds: Metrics) -> float:
    """Return by how many times a metric exceeds its threshold."""
    value, threshold = getattr(metrics, kind), getattr(thresholds, kind)
    if value != value:
        return math.inf
    return float(value / threshold) if threshold > 0 else (math.inf if value > 0 else 0.0)


def _too_far(kind: ReasonKind, metrics: Metrics, output: torch.Tensor, trial: Trial, case: str) -> Reason:
    value, threshold = getattr(metrics, kind), getattr(trial.thresholds, kind)
    times = f"{times_the_threshold(kind, metrics, trial.thresholds):.3g} times the threshold {threshold:.2g}"
    cause = likely_cause(output, trial.yardstick, trial.thresholds, trial.precision)
    message = f"{kind} is {value:.3g} on case {case}, {times}; {_worst_place(output, trial)}; {cause}"
    return Reason(kind, message, case, value, threshold)


def _worst_place(output: torch.Tensor, trial: Trial) -> str:
    got, expected = as_rows(output), trial.yardstick.expected
    error = got.sub(expected).abs_().div_(trial.yardstick.row_scale[:, None])
    row, column = divmod(int(error.argmax()), error.shape[1])
    return (
        f"worst at row {row}, column {column}: "
        f"expected {float(expected[row, column]):.6g}, got {float(got[row, column]):.6g}"
    )


def _inexact(output: torch.Tensor, exact: torch.Tensor, case: str) -> list[Reason]:
    differs = output.ne(exact)
    count = int(differs.sum())
    if count == 0:
        return []
    first = int(differs.flatten().int().argmax())
    message = (
        f"{count} of {exact.numel()} elements differ on case {case}, which must match exactly; the first at "
        f"{first}: expected {exact.flatten()[first].item():.6g}, got {output.flatten()[first].item():.6g}"
    )
    return [Reason("not_exact", message, case, count / exact.numel(), 0.0)]


def _where_not_finite(output: torch.Tensor, right: torch.Tensor, case: str) -> tuple[list[Reason], torch.Tensor]:
    """Return what is wrong where the right answer is not finite, and the output with zeros there."""
    strange = ~right.isfinite()
    got, expected = output.double(), right
    wrong = strange & (got != expected) & ~(got.isnan() & expected.isnan())
    count = int(wrong.sum())
    if count == 0:
        return [], output.masked_fill(strange, 0)
    first = int(wrong.flatten().int().argmax())
    message = (
        f"{count} of {int(strange.sum())} elements that must be infinite or no number are not, on case {case}, the "
        f"first at {first}: expected {expected.flatten()[first].item()}, got {got.flatten()[first].item():.6g}"
    )
    return [Reason("not_finite", message, case)], output.masked_fill(strange, 0)


def _not_finite(output: torch.Tensor, case: str) -> Reason:
    bad = ~output.isfinite()
    first = int(bad.flatten().int().argmax())
    message = f"{int(bad.sum())} of {output.numel()} elements are not finite on case {case}, the first at {first}"
    return Reason("not_finite", message, case)


def _unclean_zero_rows(output: torch.Tensor, trial: Trial, case: str) -> list[Reason]:
    rows = rows_of(output)[trial.yardstick.zero_rows]
    unclean = int((rows != 0).any(dim=1).sum()) if rows.numel() else 0
    if unclean == 0:
        return []
    message = f"{unclean} of {rows.shape[0]} rows that must be exactly zero are not, on case {case}"
    return [Reason("zero_rows", message, case, unclean / rows.shape[0], 0.0)]
