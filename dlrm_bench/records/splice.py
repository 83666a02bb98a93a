"""What submissions in the place of a workload's modules did to it."""

from __future__ import annotations

from typing import Literal

from dlrm_bench.records.base import Precision, Record
from dlrm_bench.records.projection import Saving
from dlrm_bench.records.result import Environment
from dlrm_bench.records.trace import Mode, Setting
from dlrm_bench.records.verdict import Metrics

Held = Literal["output", "gradient", "output_after_a_step"]


class Replacement(Record, frozen=True):
    """A submission in the place of a module.

    Attributes:
        problem: that it is for.
        submission: its label.
        submission_hash: SHA-256 of its text.
        place: name of the module that it replaces.
    """

    problem: str
    submission: str
    submission_hash: str
    place: str


class WholeCheck(Record, frozen=True):
    """Something that the whole model computes, held against the same model in float64.

    Attributes:
        what: logits; the gradient of the loss by the first layer's weights; or logits after the spliced model has
            taken a training step.
        correct: whether every metric is within its threshold.
        original: metrics of the original model.
        spliced: metrics of the spliced one.
        thresholds: what an honest model stays below, by the original's own error.
    """

    what: Held
    correct: bool
    original: Metrics
    spliced: Metrics
    thresholds: Metrics


class SpliceTimes(Record, frozen=True):
    """Steps of the original and the spliced model in turn, by the host's clock, from and to a device at rest.

    Attributes:
        steps_per_block: how many steps' median is a block's time.
        original_us: [rounds, 2], block times.
        spliced_us: likewise, in the same rounds.
        original_step_us: their median.
        spliced_step_us: likewise.
        saved: share of the step that is saved; negative where it got longer.
        saved_low: lower end of its bootstrap 95% interval.
        saved_high: upper end.
        speedup: original over spliced, the median of the rounds: 1 / (1 - saved).
        speedup_low: lower end of its interval.
        speedup_high: upper end.
    """

    steps_per_block: int
    original_us: list[list[float]]
    spliced_us: list[list[float]]
    original_step_us: float
    spliced_step_us: float
    saved: float
    saved_low: float
    saved_high: float
    speedup: float
    speedup_low: float
    speedup_high: float


class Splice(Record, frozen=True):
    """What `splice --json` prints.

    Attributes:
        schema: version of this layout.
        workload: its name, with the build.
        mode: whether a step also goes backward and updates the weights.
        precision: dtype of weights and activations.
        configuration: what the workload was built from.
        replacements: what was put where.
        not_covered: what runs as in the original although it belongs to a module that problems stand for.
        checks: of the whole model.
        correct: whether it passed them all.
        times: nothing unless it is correct.
        projected: what a projection said beforehand, one entry a method.
        environment: where it ran.
    """

    schema: int
    workload: str
    mode: Mode
    precision: Precision
    configuration: dict[str, Setting]
    replacements: list[Replacement]
    not_covered: list[str]
    checks: list[WholeCheck]
    correct: bool
    times: SpliceTimes | None
    projected: list[Saving]
    environment: Environment
