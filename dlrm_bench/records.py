"""The data that is written and read: msgspec structs, and nothing else.

Times are in microseconds (`_us`), sizes in bytes, rates in bytes or operations a second, unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Size = Literal["full", "small"]
Precision = Literal["fp32", "fp16", "bf16"]
Family = Literal["embedding bag", "interaction", "pooling"]
Bound = Literal["memory", "matrix"]
Library = Literal["fbgemm", "torchrec", "composition"]
Constant = int | float | list[int | float]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of data on disk or on the wire: immutable, and strict about what it is made from."""


# --- a problem's sidecar -------------------------------------------------------------------------


class Case(Record, frozen=True):
    """Another size or another kind of index data, as changes to the file's module constants."""

    name: str
    about: str
    set: dict[str, Constant]


class Bags(Record, frozen=True):
    """Which input holds bag boundaries, and which one holds what lies in the bags.

    Attributes:
        offsets: argument of `forward` with the boundaries, [tables * batch + 1].
        items: argument whose leading dimension the boundaries cut.
        longest: module constant at which longer bags are cut off, if any.
    """

    offsets: str
    items: str
    longest: str | None = None


class Tables(Record, frozen=True):
    """Which input looks up rows, in which tables.

    Attributes:
        parameter: prefix of the names of the parameters or buffers that hold the rows.
        indices: argument of `forward` with the row ids; with several tables they are table-major.
        rows: module constant with the rows of the table, or of each table as a list.
        columns: expression over the module constants: elements in a row, or a list of them.
    """

    parameter: str
    indices: str
    rows: str
    columns: str


class ProblemCard(Record, frozen=True):
    """Facts about a problem that its file does not say.

    Attributes:
        title: a few words.
        family: which kind of recommender work it is.
        bound: what limits a good kernel: memory traffic or the matrix units.
        library: what the library baseline is made of.
        summary: what it computes and why it matters, in a few sentences.
        sources: where the operation and its sizes come from.
        operators: operators in traces that it stands for.
        caches_weights: whether a submission may keep a transformed copy of the weights between calls.
        flops: expression for the floating-point operations, over the module constants and, for each argument
            `x` of `forward`, its leading dimension `len_x`.
        small: constants for a size that a CPU runs in well under a second.
        cases: what it is judged on beyond the default.
        exact: whether the output must match to the bit (integers and copies).
        ragged: arguments of `forward` whose leading dimension differs from one set of inputs to the next.
        bags: the bag boundaries, if there are any.
        tables: the tables looked up, if there are any.
    """

    title: str
    family: Family
    bound: Bound
    library: Library
    summary: str
    sources: list[str]
    operators: list[str]
    caches_weights: bool
    flops: str
    small: dict[str, Constant]
    cases: list[Case]
    exact: bool = False
    ragged: list[str] = []
    bags: Bags | None = None
    tables: Tables | None = None


# --- what the judge says -------------------------------------------------------------------------

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


class Verdict(Record, frozen=True):
    """What the judge says of one submission.

    Attributes:
        status: how the run ended.
        correct: whether it is right everywhere.
        reasons: why not; empty when correct.
        metrics: one entry a trial that was run to its end.
        seconds: how long judging took, without the start of the child.
    """

    status: Status
    correct: bool
    reasons: list[Reason]
    metrics: list[CaseMetrics]
    seconds: float


# --- what the clock says -------------------------------------------------------------------------

Effort = Literal["quick", "standard", "thorough"]
Outcome = Literal["win", "tie", "loss"]
Clock = Literal["cuda_events", "cpu_perf_counter"]


class IndexStatistics(Record, frozen=True):
    """The index data of one set of inputs, as drawn.

    Attributes:
        bags: how many, over all tables.
        mean_length: indices a bag.
        p99_length: 99 of 100 bags are no longer.
        longest: indices in the longest bag.
        empty_share: share of bags without an index.
        lookups: rows looked up.
        distinct_rows: how many of them differ.
        top_percent_share: share of lookups that read the hottest 1% of the distinct rows.
    """

    bags: int
    mean_length: float
    p99_length: float
    longest: int
    empty_share: float
    lookups: int
    distinct_rows: int
    top_percent_share: float


class Costs(Record, frozen=True):
    """What a call has to do at least, for the very inputs that were timed.

    Attributes:
        compulsory_bytes: every input, every distinct table row and the output, each moved once.
        algorithmic_bytes: the same with every lookup counted.
        flops: floating-point operations.
        lookups: table rows looked up.
        distinct_rows: how many of them differ.
    """

    compulsory_bytes: float
    algorithmic_bytes: float
    flops: float
    lookups: int
    distinct_rows: int


class Roofline(Record, frozen=True):
    """The device's measured ceilings, and the time that the costs need under them."""

    copy_bytes_per_second: float
    flops_per_second: float
    floor_us: float
    share: float


class DeviceState(Record, frozen=True):
    """A GPU at one moment, by its own sensors.

    Attributes:
        sm_clock_mhz: clock of the multiprocessors.
        memory_clock_mhz: clock of the memory.
        power_w: watts drawn.
        temperature_c: of the chip.
        slowed_by: what keeps the clocks down.
        processes: compute processes on it, this run's own among them.
    """

    sm_clock_mhz: int
    memory_clock_mhz: int
    power_w: float
    temperature_c: int
    slowed_by: list[str]
    processes: int


class Telemetry(Record, frozen=True):
    """The GPU before and after a measurement, and the rounds after which something kept its clocks down."""

    before: DeviceState
    after: DeviceState
    slowed_rounds: list[int]


class Kernel(Record, frozen=True):
    """A kernel of a call: its name, how often it is launched, and its time in all."""

    name: str
    launches: float
    us: float


class SecondClock(Record, frozen=True):
    """The driver's record of the kernels (CUPTI), beside the events around the same calls.

    Attributes:
        event_us: time of a call by the events.
        kernel_us: time of its kernels, added up.
        kernels: which they were, the longest first.
        agrees: whether the two differ by less than a tenth and what the launches cost.
        note: why not, if they do not.
    """

    event_us: float
    kernel_us: float
    kernels: list[Kernel]
    agrees: bool
    note: str


class Comparison(Record, frozen=True):
    """The submission beside one baseline, from paired blocks.

    Attributes:
        baseline: its name.
        status: whether the baseline itself is right; no ratio is given unless it is.
        message: what the baseline is, or why it has no time.
        median_us: its time.
        speedup: median over the rounds of baseline time over submission time.
        low: lower end of the bootstrap 95% interval of that median.
        high: upper end.
        outcome: win if the interval lies above 1 + noise, loss if below 1 - noise, tie otherwise.
        block_us: time of a call in each of its blocks, in the order they were run.
    """

    baseline: str
    status: Status
    message: str
    median_us: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    outcome: Outcome | None = None
    block_us: list[float] = []


class Measurement(Record, frozen=True):
    """What the clock says of one submission.

    Attributes:
        clock: what it was timed with; CPU and GPU times are never compared.
        cold: whether the L2 cache was flushed before each call.
        effort: how long it was measured.
        median_us: the submission's time: the median over its blocks of the mean over a block's calls.
        wall_us: the same by the parent's own clock in the block where it says least, the harness's own work taken off.
        noise: how far two equal runs lie apart here: the farther end of the 95% interval of `control`, and 0.5% at
            least.
        control: ratio of the submission to itself in another child; records of schema 1 may have none.
        comparisons: one entry a baseline.
        costs: what the call has to do.
        roofline: how near to the floor it came; only on a GPU.
        block_us: time of a call in each of its blocks, in the order they were run.
        calls_per_block: calls behind each of those.
        case: which case was timed.
        host_us: time of a call by the parent's clock when nothing is queued ahead or flushed: what the host adds.
        second_clock: the driver's record of its kernels; only on a GPU.
        telemetry: the GPU's own sensors; only on a GPU, with nvidia-ml-py.
        seconds: how long timing took, from the first round to the last, all contestants compiled.
    """

    clock: Clock
    cold: bool
    effort: Effort
    median_us: float
    wall_us: float
    noise: float
    control: float | None
    comparisons: list[Comparison]
    costs: Costs | None
    roofline: Roofline | None
    block_us: list[float]
    calls_per_block: int
    case: str = "default"
    host_us: float | None = None
    second_clock: SecondClock | None = None
    telemetry: Telemetry | None = None
    seconds: float | None = None


# --- what is written -----------------------------------------------------------------------------


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


# --- what a report says --------------------------------------------------------------------------


class BaselineSummary(Record, frozen=True):
    """A submission over all its problems, beside one baseline.

    Attributes:
        baseline: its name; `best` is the fastest right one on each problem.
        compared: problems on which both were right and timed.
        wins: problems won.
        losses: problems lost.
        win_rate: wins over all problems evaluated.
        median_speedup_of_wins: median over the problems won.
        geometric_mean: of the speedups on all problems compared.
        fast_p: for each p, the share of all problems evaluated that are right and more than p times as fast.
    """

    baseline: str
    compared: int
    wins: int
    losses: int
    win_rate: float
    median_speedup_of_wins: float | None
    geometric_mean: float | None
    fast_p: dict[str, float]


class Summary(Record, frozen=True):
    """A submission over all its problems."""

    submission: str
    evaluated: int
    correct: int
    statuses: dict[str, int]
    against: list[BaselineSummary]


class Finding(Record, frozen=True):
    """What `doctor` has to say about one thing: whether it is fine, and the mend if not."""

    about: str
    fine: bool
    message: str


# --- what an audit says --------------------------------------------------------------------------

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
    outcomes: list[TrivialOutcome] = []


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
