"""Several workloads side by side: what their steps are made of, and what was projected beside what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlrm_bench.records import Saving, Splice, TraceSummary
from dlrm_bench.report.trace import METHODS, Rows

MOST_CLASSES = 3


def workload_rows(summaries: Sequence[TraceSummary]) -> Rows:
    """Return one row a workload: its times, the addressable fractions, and what takes most of its kernel time."""
    header = [
        "workload",
        "wall ms",
        "GPU busy ms",
        "kernel time ms",
        "addressable of wall",
        "of busy",
        "of kernel time",
        "of it without communication",
        "largest classes",
    ]
    return header, [_workload_row(each) for each in summaries]


def measured_rows(splices: Sequence[Splice]) -> Rows:
    """Return one row a splice: time saved as measured, and by each method how far it says something else."""
    methods = list(dict.fromkeys(saving.method for done in splices for saving in done.projected))
    header = ["workload", "put in", "step ms", "spliced ms", "measured", *(METHODS[method] for method in methods)]
    rows = []
    for done in splices:
        by_method = {saving.method: saving for saving in done.projected}
        rows.append([*_measured_cells(done), *(_beside(by_method.get(method), done) for method in methods)])
    return header, rows


def operation_us(summary: TraceSummary) -> Counter[str]:
    """Return the kernel time of each operation in a step, whoever's kernels they are."""
    times: Counter[str] = Counter()
    for each in summary.classes:
        times[each.operation] += each.us  # type: ignore[assignment]
    return times


def _workload_row(summary: TraceSummary) -> list[str]:
    kernels = sum(each.us for each in summary.classes)
    largest = operation_us(summary).most_common(MOST_CLASSES)
    return [
        summary.workload,
        f"{summary.wall_us / 1000:.2f}",
        f"{summary.busy_us / 1000:.2f}",
        f"{kernels / 1000:.2f}",
        *(_band(each.fraction, each.high) for each in summary.addressable),
        ", ".join(f"{operation} {us / kernels:.0%}" for operation, us in largest),
    ]


def _measured_cells(done: Splice) -> list[str]:
    put_in = ", ".join(each.problem for each in done.replacements)
    times = done.times
    if times is None:
        return [done.workload, put_in, "-", "-", "output is wrong"]
    return [
        done.workload,
        put_in,
        f"{times.original_step_us / 1000:.2f}",
        f"{times.spliced_step_us / 1000:.2f}",
        f"{times.saved:.1%} [{times.saved_low:.1%}, {times.saved_high:.1%}]",
    ]


def _beside(saving: Saving | None, done: Splice) -> str:
    if saving is None:
        return "-"
    off = "" if done.times is None else f" ({100 * (saving.saved - done.times.saved):+.2f} points)"
    return f"{saving.saved:.1%}{off}" + ("" if saving.valid else ", not valid")


def _band(low: float, high: float) -> str:
    return f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
