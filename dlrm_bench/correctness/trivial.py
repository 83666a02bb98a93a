"""Outputs that compute nothing, held against `torch.allclose` as KernelBench calls it and against this judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import torch

from dlrm_bench.correctness.compare import compare
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.correctness.variations import VARIATIONS
from dlrm_bench.errors import UnfitReferenceError
from dlrm_bench.problems import DEFAULT_CASE, Problem
from dlrm_bench.records import AuditRow, Precision, Reason, Size, Trivial, TrivialOutcome

TOLERANCES: dict[Precision, float] = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
"""What KernelBench gives `torch.allclose` as absolute and relative tolerance (src/kernelbench/eval.py)."""
WEIGHTS_SEED, JUDGED_SEED, EARLIER_SEED = 0, 1, 2
"""Nobody here can make use of a known seed, so an audit says the same every time."""


def examine(problem: Problem, size: Size, precision: Precision, device: torch.device) -> AuditRow:
    """Hold every trivial output of a problem against both checks, in this process.

    The default case decides for `torch.allclose`; the judge has every case of the card, if the size is small.

    Raises:
        Exception: whatever the reference raises.
    """
    exam = Exam.of(problem, size, DEFAULT_CASE, precision, device)
    reference_right = exam.close(exam.right) == 1 and exam.refusal(exam.right) is None
    outcomes = exam.outcomes()
    for case in problem.cases[1:] if size == "small" or problem.card is None else ():
        if any(outcome.judge for outcome in outcomes.values()):
            try:
                here = Exam.of(problem, size, case, precision, device).outcomes()
            except UnfitReferenceError:
                if case in VARIATIONS:
                    continue
                raise
            outcomes = {name: _with_case(outcome, here.get(name), case) for name, outcome in outcomes.items()}
    return AuditRow(problem.id, problem.name, reference_right=reference_right, outcomes=list(outcomes.values()))


@dataclass(frozen=True)
class Exam:
    """One set of inputs, the right answer, and what a check is tried with.

    Attributes:
        case: which case it is.
        trial: the inputs and the oracle's answer.
        right: what the reference itself returns for them in the precision.
        stale: what it returned for other inputs.
    """

    case: str
    trial: Trial
    right: torch.Tensor
    stale: torch.Tensor

    @staticmethod
    def of(problem: Problem, size: Size, case: str, precision: Precision, device: torch.device) -> Exam:
        """Run the reference of a problem, size, case and precision."""
        oracle = Oracle(problem, size, case, precision, device)
        oracle.rebuild(WEIGHTS_SEED)
        stale = _reference_output(oracle, EARLIER_SEED)
        trial = oracle.trial(JUDGED_SEED)
        return Exam(case, trial, oracle.plain(trial.inputs), stale)

    def outcomes(self) -> dict[Trivial, TrivialOutcome]:
        """Return what becomes of each trivial output that the shapes allow; of several inputs' copies, the best."""
        best: dict[Trivial, TrivialOutcome] = {}
        for name, output in self._outputs():
            share, refusal = self.close(output), self.refusal(output)
            outcome = TrivialOutcome(name, share == 1, refusal is None, share, refusal)
            if name not in best or _rank(outcome) > _rank(best[name]):
                best[name] = outcome
        return best

    def close(self, output: torch.Tensor) -> float:
        """Return the share of an output's elements that `torch.allclose` takes for right; 1 if it has none."""
        tolerance = TOLERANCES[self.trial.precision]
        close = torch.isclose(self.right, output, atol=tolerance, rtol=tolerance)
        return float(close.count_nonzero()) / close.numel() if close.numel() else 1.0

    def refusal(self, output: torch.Tensor) -> Reason | None:
        """Return why the judge refuses an output, or `None` if it takes it for right."""
        reasons, _ = compare(output, self.trial, self.case)
        return reasons[0] if reasons else None

    def _outputs(self) -> Iterator[tuple[Trivial, torch.Tensor]]:
        right, stale = self.right, self.stale
        yield "zeros", right.new_zeros(()).expand_as(right)
        # Of the other inputs' output: the mean of one number would be the right answer itself.
        yield "mean", stale.mean(dtype=torch.float64).to(right.dtype).expand_as(right)
        for each in self.trial.inputs:
            if isinstance(each, torch.Tensor) and each.shape == right.shape:
                yield "input", each.to(right.dtype)
        if stale.shape == right.shape:
            yield "stale", stale


@torch.no_grad()
def _reference_output(oracle: Oracle, seed: int) -> torch.Tensor:
    output = oracle.model(*oracle.draw_inputs(seed))
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"forward returns {type(output).__name__}; only one tensor can be judged")
    return output


def _rank(outcome: TrivialOutcome) -> tuple[bool, bool, float]:
    return outcome.judge, outcome.allclose, outcome.close_share


def _with_case(outcome: TrivialOutcome, here: TrivialOutcome | None, case: str) -> TrivialOutcome:
    """Return an outcome with the judge's word on another case, `here`, added."""
    if not outcome.judge or (here is not None and here.judge):
        return outcome
    reason = Reason("wrong_shape", f"it has another shape on case {case}", case) if here is None else here.reason
    return msgspec.structs.replace(outcome, judge=False, reason=reason)
