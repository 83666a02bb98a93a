"""Which workloads there are, and in which module; naming them imports no torch."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

from dlrm_bench.errors import UsageError

if TYPE_CHECKING:
    from dlrm_bench.workloads.base import Workload

MODULES = {
    "decoder-1b-prefill": "decoders",
    "decoder-7b-decode": "decoders",
    "bert-large-training": "encoders",
    "vit-b16-training": "vision",
    "resnet50-training": "vision",
    "dlrm-inference": "recommenders",
    "dlrm-dcnv2-training": "recommenders",
}
RECOMMENDERS = tuple(name for name, module in MODULES.items() if module == "recommenders")


def open_workload(name: str) -> Workload:
    """Return a workload by name.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in MODULES:
        near = difflib.get_close_matches(name, MODULES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(MODULES)}"
        raise UsageError(f"no workload {name!r}; {hint}")
    module = importlib.import_module(f"dlrm_bench.workloads.{MODULES[name]}")
    workload: Workload = module.WORKLOADS[name]
    return workload
