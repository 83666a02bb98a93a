"""What most likely went wrong, from the shape of the error alone; a hint for a person, never a reason."""

from __future__ import annotations

import torch

from dlrm_bench.correctness.metrics import Yardstick, as_rows
from dlrm_bench.records import Metrics, Precision

LOW_PRECISION_ERROR = 3e-3
"""Relative error up to which float32 results look like products of a shorter mantissa: TF32's unit is 2^-11."""
ACCUMULATION_ERROR = 0.1
"""Relative error up to which 16-bit results look like sums kept in 16 bits."""


def likely_cause(output: torch.Tensor, yardstick: Yardstick, thresholds: Metrics, precision: Precision) -> str:
    """Return a few words on the likely cause of an error; they always apply to what is seen.

    Args:
        output: what was returned, finite.
        yardstick: the right answer.
        thresholds: what was allowed.
        precision: what the submission was asked to compute in.
    """
    got, expected = as_rows(output), yardstick.expected
    if not bool(got.any()):
        return "the output is all zeros"
    if bool((got == got[0, 0]).all()):
        return "the output is constant"
    error = got.sub(expected).abs_()
    wrong_rows = (torch.linalg.vector_norm(error, dim=1) / yardstick.row_scale) > thresholds.worst_row
    wrong_columns = error.div_(yardstick.row_scale[:, None]).amax(dim=0) > thresholds.worst_row
    del error
    return (
        _tail("row", wrong_rows)
        or _tail("column", wrong_columns)
        or _scaled(got, yardstick, thresholds)
        or _too_few_bits(output, yardstick, precision)
        or f"{int(wrong_rows.sum())} of {len(wrong_rows)} rows are wrong"
    )


def _tail(what: str, wrong: torch.Tensor) -> str:
    count, total = int(wrong.sum()), len(wrong)
    if 0 < count < total and count <= max(1, total // 4) and bool(wrong[-count:].all()):
        return f"only the last {count} of {total} {what}s {'is' if count == 1 else 'are'} wrong: a tail is missed"
    return ""


def _scaled(got: torch.Tensor, yardstick: Yardstick, thresholds: Metrics) -> str:
    factor = float((got * yardstick.expected).sum()) / max(yardstick.norm**2, 1e-300)
    left = float(torch.linalg.vector_norm(got.sub(yardstick.expected, alpha=factor)))
    if factor != 0 and left <= thresholds.relative_l2 * yardstick.norm * abs(factor):
        return f"it is {factor:.5g} times what it should be"
    return ""


def _too_few_bits(output: torch.Tensor, yardstick: Yardstick, precision: Precision) -> str:
    error = yardstick.measure(output).relative_l2
    if precision != "fp32":
        return f"a sum kept in {precision}, not in float32?" if error < ACCUMULATION_ERROR else ""
    for dtype in (torch.bfloat16, torch.float16):
        if bool((output.to(dtype).to(output.dtype) == output).all()):
            return f"every value is a {str(dtype).removeprefix('torch.')}: it was rounded on the way"
    return "TF32 or another short mantissa?" if error < LOW_PRECISION_ERROR else ""
