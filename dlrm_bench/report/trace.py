"""Traces and projections as text: tables for a terminal."""

from __future__ import annotations

from dlrm_bench.records import Denominator, Match, Method, Projection, Saving, TraceSummary

Rows = tuple[list[str], list[list[str]]]
DENOMINATORS: dict[Denominator, str] = {
    "wall": "wall of a step",
    "busy": "GPU busy",
    "kernels": "kernel time",
    "kernels_without_communication": "kernel time without communication",
}
METHODS: dict[Method, str] = {
    "paper": "paper's formula",
    "matched": "matched",
    "replay": "replay of launches",
    "best_library": "bound: best library",
    "roofline": "bound: roofline",
    "infinite": "bound: no time at all",
}


def class_rows(summary: TraceSummary) -> Rows:
    """Return the kernels of a trace by class, the longest first."""
    header = ["operation", "owner", "addressable", "launches", "us", "share"]
    return header, [
        [
            each.operation,
            each.owner,
            "yes" if each.addressable else "no",
            f"{each.launches:g}",
            f"{each.us:.1f}",
            f"{each.share:.2%}",
        ]
        for each in summary.classes
    ]


def addressable_rows(summary: TraceSummary) -> Rows:
    """Return the addressable fraction against each denominator, as a band where something is unknown."""
    header = ["addressable part of", "policy", "us", "fraction"]
    return header, [
        [DENOMINATORS[each.denominator], summary.policy, f"{each.us:.1f}", _band(each.fraction, each.high)]
        for each in summary.addressable
    ]


def trace_lines(summary: TraceSummary) -> list[str]:
    """Return where a trace comes from, how its kernels were linked, and what to know before using it."""
    wall = f"{summary.wall_us:.1f} us" + (" with the profiler" if summary.wall_is_profiled else "")
    linking, precision = summary.linking, summary.precision or "precision unknown"
    return [
        f"{summary.workload}: {summary.gpu}, {precision}, {summary.steps} steps of {wall}",
        f"operators by external id {linking.external_id:.1%}, by correlation {linking.correlation:.1%}, "
        f"none {linking.unlinked:.1%}; unknown kernels {summary.unknown:.2%} of kernel time",
        *(f"note: {each}" for each in summary.warnings),
    ]


def saving_rows(projection: Projection) -> Rows:
    """Return what each method says: time saved, and the same as a speedup."""
    header = ["method", "rests on", "time saved", "95%", "speedup", "95%"]
    return header, [_saving_row(each) for each in projection.savings]


def match_rows(projection: Projection) -> Rows:
    """Return which kernels were taken for which problem."""
    header = ["kernels", "stood for by", "baseline", "us", "of wall", "outcome", "speedup", "95%"]
    return header, [_match_row(each) for each in projection.matches]


def projection_lines(projection: Projection) -> list[str]:
    """Return what a projection rests on, and what to know before using it."""
    wall = f"{projection.wall_us:.1f} us" + (" with the profiler" if projection.wall_is_profiled else "")
    losses = "kernels that lose are left out" if projection.fallback else "losses count as losses"
    return [
        f"{projection.submission} on {projection.workload}: {projection.gpu}, step of {wall}; {losses}",
        f"addressable under `{projection.policy}`: {projection.addressable:.1%} of the wall; results stand for "
        f"{projection.coverage:.1%} of addressable kernel time",
        *(f"forced: {each}" for each in projection.forced),
        *(f"note: {each}" for each in projection.warnings),
    ]


def saving_line(saving: Saving) -> str:
    """Return one saving in one line: 8.63% of the step saved, a speedup of 1.094."""
    figures = f"{saving.saved:.2%} of the step saved, a speedup of {saving.speedup:.3f}"
    return f"{METHODS[saving.method]}: {figures} ({saving.note})"


def _saving_row(each: Saving) -> list[str]:
    name = METHODS[each.method] + ("" if each.valid else " (not valid)")
    if each.saved_low is None or each.saved_high is None or each.speedup_low is None or each.speedup_high is None:
        return [name, each.note, f"{each.saved:.2%}", "-", f"{each.speedup:.3f}", "-"]
    return [
        name,
        each.note,
        f"{each.saved:.2%}",
        f"[{each.saved_low:.2%}, {each.saved_high:.2%}]",
        f"{each.speedup:.3f}",
        f"[{each.speedup_low:.3f}, {each.speedup_high:.3f}]",
    ]


def _match_row(each: Match) -> list[str]:
    return [
        f"{each.operation} by {each.operator}",
        f"{each.problem}: {each.reason}",
        each.baseline + (", by time" if each.by_time else ""),
        f"{each.us:.1f}",
        f"{each.share:.2%}",
        each.outcome,
        f"{each.speedup:.3f}",
        f"[{each.low:.3f}, {each.high:.3f}]",
    ]


def _band(low: float, high: float) -> str:
    return f"{low:.2%}" if f"{low:.2%}" == f"{high:.2%}" else f"{low:.2%} to {high:.2%}"
