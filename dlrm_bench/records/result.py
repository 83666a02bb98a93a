"""What is written of an evaluation, and of a run."""

from __future__ import annotations

from dlrm_bench.records.base import Constant, Precision, Record, Size
from dlrm_bench.records.measurement import Effort, Measurement
from dlrm_bench.records.verdict import Status, Verdict

SCHEMA = 3
"""Of results and runs. In those before 3 an interval is the bootstrap's alone, without the noise."""


class Environment(Record, frozen=True):
    """Where a result was made: an allow-list, never the host's name, the user or the environment variables."""

    device: str
    driver: str | None
    python: str
    system: str
    dlrm_bench: str
    torch: str | None
    cuda: str | None
    triton: str | None
    fbgemm: str | None
    torchrec: str | None


class Result(Record, frozen=True):
    """One evaluation: a line of `results.jsonl`.

    Attributes:
        schema: version of this layout.
        problem: name of the problem.
        problem_id: its number.
        problem_hash: SHA-256 of its text.
        submission: label of the submission.
        submission_hash: SHA-256 of its text.
        size: which size was run.
        precision: dtype of weights and floating inputs.
        status: the verdict's status.
        correct: the verdict.
        verdict: the whole of it.
        measurement: what the clock says; nothing unless correct and timed.
        protections: what the submission could not do while it ran; `dlrm_bench.sandbox.protections` has their names.
        environment: where it ran.
        time: when it ended, ISO 8601 in UTC.
    """

    schema: int
    problem: str
    problem_id: int
    problem_hash: str
    submission: str
    submission_hash: str
    size: Size
    precision: Precision
    status: Status
    correct: bool
    verdict: Verdict
    measurement: Measurement | None
    protections: list[str]
    environment: Environment
    time: str


class SweepPoint(Record, frozen=True):
    """One variant of a problem in a sweep: a module constant, what it was set to, and the result."""

    constant: str
    value: Constant
    result: Result


class RunRecord(Record, frozen=True):
    """What a run was asked to do: `run.json`."""

    schema: int
    submissions: list[str]
    problems: list[str]
    size: Size
    precision: Precision
    baselines: list[str]
    effort: Effort | None
    device: str
    environment: Environment
    time: str
