"""A workload's profile, reduced to its kernels."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlrm_bench.records.base import Precision, Record

Mode = Literal["inference", "training"]
Setting = bool | int | float | str | list[int | float | str] | None
Denominator = Literal["wall", "busy", "kernels", "kernels_without_communication"]


class Provenance(Record, frozen=True):
    """Where a trace was taken: an allow-list, never a host's name, a user, a path or the environment variables.

    Attributes:
        gpu: name of the GPU.
        driver: version of its driver; of a Kineto file the CUDA version that the driver supports.
        cuda: version of the CUDA runtime.
        torch: version of torch; a Kineto file does not say.
        dlrm_bench: version of this package that reduced it.
    """

    gpu: str
    driver: str | None
    cuda: str | None
    torch: str | None
    dlrm_bench: str


class TraceRow(Record, frozen=True):
    """All launches of one kernel by one operator, in one part of the model, on inputs of one shape.

    Attributes:
        kernel: name of the kernel, normalised: without its argument list.
        operator: the innermost operator that launched it, such as `aten::_embedding_bag`; nothing if none is known.
        outer: the outermost operator around the launch; in a backward pass the autograd node.
        part: the innermost annotation around the launch, such as `torch.profiler.record_function("interaction")` makes.
        shapes: sizes of the operator's inputs, in order; scalars are empty, tensor lists follow one another.
        dtype: type of the operator's first floating input, in torch's spelling: `c10::BFloat16`.
        operation: what it does, by the rules: `gemm`, `embedding_forward`, `elementwise`, ..., `unknown`.
        owner: whose code it is, by the rules: `cublas`, `aten`, `fbgemm`, `inductor`, ..., `unknown`.
        launches: how many, over all steps.
        step_us: duration in all, one entry a step.
        exclusive_us: time over all steps in which nothing else ran on the GPU.
        shared_us: time over all steps, each moment divided by the number of kernels that ran in it.
    """

    kernel: str
    operator: str | None
    outer: str | None
    part: str | None
    shapes: list[list[int]]
    dtype: str | None
    operation: str
    owner: str
    launches: int
    step_us: list[float]
    exclusive_us: float
    shared_us: float

    @property
    def total_us(self) -> float:
        """Duration over all steps."""
        return sum(self.step_us)


class Launches(Record, frozen=True):
    """Every launch of one step in the order of the host's calls: columns of equal length, from the step's begin on.

    Attributes:
        row: index into the trace's rows.
        stream: number of the stream.
        host_us: when the host began the launch; the kernel's own start where no launch is known.
        start_us: when the kernel began.
        duration_us: how long it ran.
        waits_us: when the host began to wait for the GPU, one entry a blocking call.
        waits_end_us: when each of those calls returned.
        wall_us: length of the step.
    """

    row: list[int]
    stream: list[int]
    host_us: list[float]
    start_us: list[float]
    duration_us: list[float]
    waits_us: list[float]
    waits_end_us: list[float]
    wall_us: float


class Linking(Record, frozen=True):
    """Shares of kernel time by how its operator was found; they add up to 1.

    Attributes:
        external_id: by the id that kernel and operator share.
        correlation: by the host's call that launched it, and the innermost operator around that call.
        unlinked: not at all.
    """

    external_id: float
    correlation: float
    unlinked: float


class Trace(Record, frozen=True):
    """Some steps of a workload on a GPU.

    Attributes:
        schema: version of this layout.
        workload: its name.
        mode: whether a step also goes backward and updates weights; nothing where it is not known.
        precision: dtype of weights and activations; of a Kineto file that of most kernel time, if it says.
        configuration: what the workload was built from.
        provenance: where it was taken.
        wall_us: steps without the profiler; empty if they were not taken.
        profiled_wall_us: the profiled steps, one entry a step.
        busy_us: time of each profiled step in which the GPU ran anything.
        rules: version of the rules that classified the rows.
        linking: how the operators were found.
        untimed: kernels left out that have no duration above zero.
        outside: kernels left out that were launched outside the steps, or ran on another GPU.
        with_stack: whether stacks were recorded, which slows the host down.
        rows: the kernels, the longest first.
        launches: one step's launches for a replay.
    """

    schema: int
    workload: str
    mode: Mode | None
    precision: Precision | None
    configuration: dict[str, Setting]
    provenance: Provenance
    wall_us: list[float]
    profiled_wall_us: list[float]
    busy_us: list[float]
    rules: int
    linking: Linking
    untimed: int
    outside: int
    with_stack: bool
    rows: list[TraceRow]
    launches: Launches | None = None


class IndexEntry(Record, frozen=True):
    """One reference trace: its file's name, size and SHA-256."""

    file: str
    workload: str
    bytes: int
    sha256: str


class TraceIndex(Record, frozen=True):
    """The reference traces of one GPU: `index.json`."""

    schema: int
    traces: list[IndexEntry]


class ClassShare(Record, frozen=True):
    """One class of kernels in a trace.

    Attributes:
        operation: what they do.
        owner: whose they are.
        addressable: under the policy.
        launches: in a step.
        us: kernel time in a step.
        share: of the sum of kernel time.
    """

    operation: str
    owner: str
    addressable: bool
    launches: float
    us: float
    share: float


class AddressableFraction(Record, frozen=True):
    """The addressable part of one denominator.

    Attributes:
        denominator: wall of a step, time that the GPU was busy, sum of kernel time, the same without communication.
        us: the denominator in a step.
        fraction: addressable time over it; for wall and busy time each moment is divided among the kernels running.
        high: the same if everything unknown were addressable.
    """

    denominator: Denominator
    us: float
    fraction: float
    high: float


class TraceSummary(Record, frozen=True):
    """What `trace --json` prints.

    Attributes:
        workload: name of the workload, or of the file.
        gpu: where it was taken.
        precision: dtype of weights and activations.
        policy: what counts as addressable.
        steps: how many were profiled.
        wall_us: median step without the profiler, or with it if there is none without.
        wall_is_profiled: whether it is one with the profiler.
        profiled_wall_us: median step with the profiler.
        busy_us: median time that the GPU was busy.
        unknown: share of kernel time that no rule knows.
        linking: how the operators were found.
        untimed: kernels left out that have no duration above zero.
        outside: kernels left out that were launched outside the steps, or ran on another GPU.
        addressable: against the four denominators.
        classes: the longest first.
        warnings: what a reader should know before using these figures.
    """

    workload: str
    gpu: str
    precision: Precision | None
    policy: str
    steps: int
    wall_us: float
    wall_is_profiled: bool
    profiled_wall_us: float
    busy_us: float
    unknown: float
    linking: Linking
    untimed: int
    outside: int
    addressable: list[AddressableFraction]
    classes: list[ClassShare]
    warnings: list[str] = msgspec.field(default_factory=list)
