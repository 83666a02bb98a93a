"""What the clock says."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlrm_bench.records.base import Record
from dlrm_bench.records.verdict import Status

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
    """The device's measured ceilings, and the time that the costs need under them.

    Attributes:
        copy_bytes_per_second: of a large copy, bytes read and bytes written.
        flops_per_second: of a large bf16 matrix product.
        floor_us: the largest of the compulsory bytes by the first, the operations by the second, and the algorithmic
            bytes by `gather_bytes_per_second`.
        share: of that in the time measured.
        gather_bytes_per_second: of table rows read at random out of the L2; records of before it was measured have
            none, and a floor without it.
    """

    copy_bytes_per_second: float
    flops_per_second: float
    floor_us: float
    share: float
    gather_bytes_per_second: float | None = None


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
        busy_us: time in which at least one of them ran; records of before it was looked at have none.
        kernels: which they were, the longest first.
        agrees: whether the two differ by less than a tenth and what the launches cost.
        note: why not, if they do not.
    """

    event_us: float
    kernel_us: float
    kernels: list[Kernel]
    agrees: bool
    note: str
    busy_us: float | None = None


class Comparison(Record, frozen=True):
    """The submission beside one baseline, from paired blocks.

    Attributes:
        baseline: its name.
        status: whether the baseline itself is right; no ratio is given unless it is.
        message: what the baseline is, or why it has no time.
        median_us: its time.
        speedup: median over the rounds of baseline time over submission time.
        low: lower end of its interval: the bootstrap's 95%, and the measurement's noise below that.
        high: upper end.
        outcome: win if the interval lies above 1, loss if below 1, tie otherwise.
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
    block_us: list[float] = msgspec.field(default_factory=list)


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
