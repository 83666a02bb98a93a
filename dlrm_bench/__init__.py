"""Twelve recommender kernel problems, a judge that is hard to fool, and a clock with intervals."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlrm_bench.interop.reward import reward as reward
    from dlrm_bench.problems import load_problems as load_problems
    from dlrm_bench.projection.project import project as project
    from dlrm_bench.runs import read_results as read_results
    from dlrm_bench.traces.load import load_trace as load_trace

__version__ = "0.1.0"
_WHERE = {
    "load_problems": "dlrm_bench.problems",
    "load_trace": "dlrm_bench.traces.load",
    "project": "dlrm_bench.projection.project",
    "read_results": "dlrm_bench.runs",
    "reward": "dlrm_bench.interop.reward",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: what needs torch or a trace costs nothing until then."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
