"""What an audit says."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from dlrm_bench.records.base import Precision, Record, Size
from dlrm_bench.records.problem import ProblemCard
from dlrm_bench.records.verdict import Reason

Trivial = Literal["zeros", "mean", "input", "stale"]
TRIVIAL: tuple[Trivial, ...] = get_args(Trivial)


class AuditRequest(Record, frozen=True):
    """What the child that audits one problem is asked.

    Attributes:
        problem_id: the problem's number.
        problem: its name.
        code: its file's text.
        card: its sidecar, if it has one.
        size: which size to run.
        precision: dtype of weights and floating inputs.
        device: where.
        memory_bytes: what the problem may take there.
    """

    problem_id: int
    problem: str
    code: str
    card: ProblemCard | None
    size: Size
    precision: Precision
    device: str
    memory_bytes: int


class TrivialOutcome(Record, frozen=True):
    """What becomes of an output that computes nothing.

    Attributes:
        output: zeros; a copy of an input; the right output for other inputs; or that output's mean everywhere.
        allclose: whether `torch.allclose` takes it for right, with KernelBench's tolerance.
        judge: whether this project's judge does, on every case that was run.
        close_share: share of its elements within that tolerance, on the default case.
        reason: why the judge does not.
    """

    output: Trivial
    allclose: bool
    judge: bool
    close_share: float
    reason: Reason | None = None


class AuditRow(Record, frozen=True):
    """One problem.

    Attributes:
        problem_id: its number.
        problem: its name.
        skipped: why it was not run, if it was not.
        reference_right: whether the reference's own output passes both checks.
        outcomes: one entry a trivial output; those that its shapes do not allow are left out.
    """

    problem_id: int
    problem: str
    skipped: str | None = None
    reference_right: bool = False
    outcomes: list[TrivialOutcome] = msgspec.field(default_factory=list)


class AuditSummary(Record, frozen=True):
    """An audit as a whole; problems are given by name.

    Attributes:
        precision: dtype of weights and floating inputs.
        tolerance: absolute and relative tolerance of `torch.allclose`.
        audited: how many problems were run.
        skipped: how many were not.
        allclose: for each trivial output, the problems on which `torch.allclose` takes it for right.
        judge: the same of this project's judge.
        reference_wrong: problems whose own reference does not pass.
    """

    precision: Precision
    tolerance: float
    audited: int
    skipped: int
    allclose: dict[Trivial, list[str]]
    judge: dict[Trivial, list[str]]
    reference_wrong: list[str]


class Audit(Record, frozen=True):
    """What `audit --json` prints."""

    rows: list[AuditRow]
    summary: AuditSummary
