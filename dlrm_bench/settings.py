"""How to evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from dlrm_bench.problems import DEFAULT_CASE
from dlrm_bench.records import Effort, Precision, Size
from dlrm_bench.sandbox.limits import Limits


@dataclass(frozen=True)
class Settings:
    """How to evaluate.

    Attributes:
        device: where.
        size: which size of the problems.
        precision: dtype of weights and floating inputs.
        effort: how long to time a correct submission; `None` to judge only.
        baselines: what to time it beside.
        cases: which cases to judge; all if `None`.
        timed_case: which case to time.
        cold: whether to flush a GPU's L2 before each timed call.
        limits: what a submission may use.
    """

    device: torch.device
    size: Size
    precision: Precision
    effort: Effort | None = "standard"
    baselines: tuple[str, ...] = ("eager", "inductor", "fbgemm")
    cases: tuple[str, ...] | None = None
    timed_case: str = DEFAULT_CASE
    cold: bool = True
    limits: Limits = field(default_factory=Limits)
