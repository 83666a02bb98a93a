"""What the judge says."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from dlrm_bench.records.base import Record

Failure = Literal["compile_error", "runtime_error", "timeout", "crash", "out_of_memory", "unsupported"]
FAILURES: tuple[Failure, ...] = get_args(Failure)
Status = Literal["correct", "incorrect"] | Failure
Check = Literal[
    "not_a_tensor",
    "wrong_shape",
    "wrong_dtype",
    "wrong_device",
    "not_finite",
    "relative_l2",
    "worst_row",
    "centred_l2",
    "worst_element",
    "zero_rows",
    "not_exact",
    "input_changed",
    "output_aliased",
    "not_written",
    "not_repeatable",
    "stale_weights",
    "wrong_while_timed",
    "time_not_explained",
    "time_impossible",
]


ReasonKind = Check | Failure


class Reason(Record, frozen=True):
    """Why a submission is not correct.

    Attributes:
        reason: which check failed.
        case: on which case, if one was running.
        message: one line that a person understands.
        value: the metric, where the check has one.
        threshold: what it had to stay below.
    """

    reason: ReasonKind
    message: str
    case: str | None = None
    value: float | None = None
    threshold: float | None = None


def failure(status: Failure, message: str, case: str | None = None) -> Reason:
    """Return the reason for a submission that ended in another way than with an answer."""
    return Reason(status, message, case)


def status_of(reason: Reason) -> Status:
    """Return the status that a reason alone leads to."""
    return next((each for each in FAILURES if each == reason.reason), "incorrect")


class Metrics(Record, frozen=True):
    """How far an output is from the float64 oracle; every figure is relative, 0 is perfect.

    Attributes:
        relative_l2: norm of the error over the norm of the right output.
        worst_row: the same for the worst row, its norm floored by the output's own row scale.
        centred_l2: norm of the error over the spread of the right output, so that no constant comes near.
        worst_element: the largest error over its row's root mean square, floored likewise.
    """

    relative_l2: float
    worst_row: float
    centred_l2: float
    worst_element: float


class CaseMetrics(Record, frozen=True):
    """The metrics of one trial beside what they had to stay below."""

    case: str
    metrics: Metrics
    thresholds: Metrics


class CaseSeconds(Record, frozen=True):
    """How long judging one case took: the oracle's inputs and answers, and the submission's calls."""

    case: str
    seconds: float


class Verdict(Record, frozen=True):
    """What the judge says of one submission.

    Attributes:
        status: how the run ended.
        correct: whether it is right everywhere.
        reasons: why not; empty when correct.
        metrics: one entry a trial that was run to its end.
        seconds: how long judging took, without the start of the child.
        spent: that time by case, as far as it came.
    """

    status: Status
    correct: bool
    reasons: list[Reason]
    metrics: list[CaseMetrics]
    seconds: float
    spent: list[CaseSeconds] = msgspec.field(default_factory=list)
