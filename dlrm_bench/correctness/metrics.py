"""How far an output is from the oracle, and how far an honest kernel may be.

All metrics are computed in float64 and are invariant to scaling both sides. A row is a vector along the last
dimension.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dlrm_bench.records import Metrics, Precision

UNIT_ROUNDOFF = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
MULTIPLE = 3.0
"""How many times the reference's own error an honest kernel may be off on average."""
MULTIPLE_OF_WORST = 5.0
"""The same where one row or element decides: the largest error of one run says less about that of another."""
FEWEST_AVERAGED = 32
"""Elements below which no metric is an average."""
ACCUMULATION_ROUNDINGS = 256.0
"""Roundings of float32 that an accumulation in any order may lose, beyond those of one long bag."""

BLOCK_ELEMENTS = 1 << 24
"""Elements of an error held at a time: beside an output that fills a device there is no room for all of them."""
NO_SPREAD = 2.0**-40
"""Deviation over norm below which an output is constant but for float64's own rounding."""


@dataclass(frozen=True)
class Yardstick:
    """What errors are measured against: norms and scales of the right output.

    Attributes:
        expected: the oracle's output as rows, [rows, columns] float64.
        norm: its Frobenius norm.
        spread: the norm of its deviation from its column means (from its mean, if it has one row only); `norm` where
            nothing deviates.
        row_scale: [rows], each row's norm, floored by the median norm of the rows that are not zero.
        zero_rows: [rows], which rows are exactly zero.
    """

    expected: torch.Tensor
    norm: float
    spread: float
    row_scale: torch.Tensor
    zero_rows: torch.Tensor

    @staticmethod
    def of(expected: torch.Tensor) -> Yardstick:
        """Measure the oracle's output, of any shape."""
        rows = as_rows(expected)
        norms = torch.linalg.vector_norm(rows, dim=1)
        zero = norms == 0
        typical = float(norms[~zero].median()) if bool((~zero).any()) else 0.0
        centre = rows.mean(dim=0) if rows.shape[0] > 1 else rows.mean()
        norm = float(torch.linalg.vector_norm(rows))
        deviations = [torch.linalg.vector_norm(rows[each] - centre) for each in _blocks(rows)]
        spread = float(torch.linalg.vector_norm(torch.stack(deviations))) if deviations else 0.0
        return Yardstick(
            expected=rows,
            norm=norm,
            spread=spread if spread > NO_SPREAD * norm else norm,
            row_scale=norms.clamp_min(typical),
            zero_rows=zero,
        )

    def measure(self, output: torch.Tensor) -> Metrics:
        """Return the metrics of an output of the same shape; all zero if there is nothing to compare."""
        if self.expected.numel() == 0:
            return Metrics(0.0, 0.0, 0.0, 0.0)
        rows, norms, peaks = rows_of(output), [], []
        for each in _blocks(self.expected):
            error = rows[each].double().sub(self.expected[each])
            norms.append(torch.linalg.vector_norm(error, dim=1))
            peaks.append(error.abs_().amax(dim=1))
        by_row = torch.cat(norms)
        total = float(torch.linalg.vector_norm(by_row))
        worst = self._over_scale(torch.cat(peaks)).amax()
        return Metrics(
            relative_l2=_finite(_ratio(total, self.norm)),
            worst_row=_finite(float(self._over_scale(by_row).amax())),
            centred_l2=_finite(_ratio(total, self.spread)),
            worst_element=_finite(float(worst) * math.sqrt(self.expected.shape[1])),
        )

    def thresholds(self, reference: Metrics, precision: Precision, terms: int) -> Metrics:
        """Return what an honest kernel's metrics stay below.

        A small multiple of the error that the reference itself makes on this data, floored by one rounding of the
        output to `precision` and by an accumulation of `terms` numbers one after another in float32 (whose error
        grows at worst with their count).

        Args:
            reference: metrics of the reference, run in `precision`.
            precision: dtype of the output.
            terms: numbers summed into one output element at most.
        """
        unit = UNIT_ROUNDOFF[precision]
        accumulation = UNIT_ROUNDOFF["fp32"] * (ACCUMULATION_ROUNDINGS + terms / 4)
        floor = unit + accumulation
        multiple = MULTIPLE if self.expected.numel() >= FEWEST_AVERAGED else MULTIPLE_OF_WORST
        return Metrics(
            relative_l2=max(multiple * reference.relative_l2, floor),
            worst_row=max(MULTIPLE_OF_WORST * reference.worst_row, 2 * floor),
            centred_l2=max(multiple * reference.centred_l2, floor * _ratio(self.norm, self.spread)),
            worst_element=max(MULTIPLE_OF_WORST * reference.worst_element, 2 * floor * self._peak()),
        )

    def _over_scale(self, by_row: torch.Tensor) -> torch.Tensor:
        return torch.where(by_row == 0, 0.0, by_row / self.row_scale)

    def _peak(self) -> float:
        if self.expected.numel() == 0:
            return 0.0
        columns = self.expected.shape[1]
        peaks = torch.linalg.vector_norm(self.expected, ord=math.inf, dim=1)
        return float(self._over_scale(peaks).amax()) * math.sqrt(columns)


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of any shape as [rows, columns]."""
    columns = tensor.shape[-1] if tensor.dim() and tensor.numel() else 1
    return tensor.reshape(-1, columns)


def as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of any shape as [rows, columns] float64."""
    return rows_of(tensor).double()


def _blocks(rows: torch.Tensor) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // max(1, rows.shape[1]))
    for first in range(0, rows.shape[0], step):
        yield slice(first, first + step)


def _finite(metric: float) -> float:
    """Return a metric that JSON can hold: what is no number is as wrong as can be."""
    return metric if math.isfinite(metric) else sys.float_info.max


def _ratio(error: float, scale: float) -> float:
    """Return error / scale, where nothing over nothing is no error and something over nothing is all error."""
    if scale > 0:
        return error / scale
    return 0.0 if error == 0 else 1.0
