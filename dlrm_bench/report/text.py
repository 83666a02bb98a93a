"""Results as text: one line a result, tables for a terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from dlrm_bench.records import TRIVIAL, AuditRow, AuditSummary, Comparison, Result, Summary, TrivialOutcome
from dlrm_bench.report.summary import BEST, compared, summarise


def verdict_line(result: Result) -> str:
    """Return the verdict in one line."""
    reason = result.verdict.reasons[0].message if result.verdict.reasons else f"{len(result.verdict.metrics)} trials"
    return f"{result.problem}: {result.status}: {reason}"


def comparison_line(each: Comparison) -> str:
    """Return one comparison in one line."""
    if each.speedup is None:
        return f"{each.baseline}: {each.status}: {each.message}"
    return (
        f"{each.baseline}: {each.speedup:.3f}x [{each.low:.3f}, {each.high:.3f}] {each.outcome}, "
        f"{each.median_us:.1f} us ({each.message})"
    )


def result_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of results."""
    names = _baselines(results)
    header = ["problem", "submission", "status", "time us", *(f"vs {name}" for name in names), "of floor"]
    return header, [_row(result, names) for result in results]


def summary_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the summary: one row a submission and baseline."""
    header = [
        "submission",
        "correct",
        "baseline",
        "wins",
        "losses",
        "win rate",
        "median win",
        "geometric mean",
        "fast_1",
    ]
    return header, [row for summary in summarise(results) for row in _summary_rows(summary)]


def audit_rows(rows: Sequence[AuditRow]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of an audit: for each trivial output, what passes allclose / the judge."""
    return ["problem", "note", *TRIVIAL, "closest"], [_audit_row(row) for row in rows]


def audit_lines(summary: AuditSummary) -> list[str]:
    """Return an audit's summary, one line a check, and one for references that fail their own."""
    tolerance = f"torch.allclose at {summary.tolerance:g}"
    lines = [f"audited {summary.audited} in {summary.precision}, skipped {summary.skipped}"]
    for check, passed in ((tolerance, summary.allclose), ("this judge", summary.judge)):
        lines.append(f"{check} passes {'; '.join(_counted(kind, names) for kind, names in passed.items())}")
    if summary.reference_wrong:
        lines.append(f"the reference itself fails on {', '.join(summary.reference_wrong)}")
    return lines


def table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """Return a table for a terminal."""
    drawn = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        drawn.add_column(name, justify="left" if i < 2 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*map(escape, row))
    return drawn


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def provenance(results: Sequence[Result]) -> list[str]:
    """Return one line for each distinct environment that results were made in."""
    return list(dict.fromkeys(_made_in(result) for result in results))


def _made_in(result: Result) -> str:
    e = result.environment
    versions = [("torch", e.torch), ("triton", e.triton), ("fbgemm-gpu", e.fbgemm), ("driver", e.driver)]
    shown = ", ".join(f"{name} {version}" for name, version in versions if version)
    clock = f", {result.measurement.clock}, effort {result.measurement.effort}" if result.measurement else ""
    return f"{e.device}; {shown}; size {result.size}, {result.precision}{clock}"


def _baselines(results: Sequence[Result]) -> list[str]:
    measured = [result.measurement for result in results if result.measurement]
    return list(dict.fromkeys(each.baseline for measurement in measured for each in measurement.comparisons))


def _row(result: Result, baselines: Sequence[str]) -> list[str]:
    measurement = result.measurement
    time = f"{measurement.median_us:.1f}" if measurement else "-"
    share = f"{measurement.roofline.share:.0%}" if measurement and measurement.roofline else "-"
    speedups = [_speedup(compared(result, name)) for name in baselines]
    return [f"{result.problem_id} {result.problem}", result.submission, result.status, time, *speedups, share]


def _speedup(each: Comparison | None) -> str:
    return "-" if each is None or each.speedup is None else f"{each.speedup:.2f} {each.outcome}"


def _summary_rows(summary: Summary) -> list[list[str]]:
    correct = f"{summary.correct} of {summary.evaluated}"
    if not summary.against:
        return [[summary.submission, correct, *["-"] * 7]]
    return [
        [
            summary.submission,
            correct,
            "best of these" if each.baseline == BEST else each.baseline,
            str(each.wins),
            str(each.losses),
            f"{each.win_rate:.0%}",
            _number(each.median_speedup_of_wins),
            _number(each.geometric_mean),
            f"{each.fast_p['1']:.0%}",
        ]
        for each in summary.against
    ]


def _audit_row(row: AuditRow) -> list[str]:
    problem = f"{row.problem_id} {row.problem}"
    if row.skipped is not None:
        return [problem, f"skipped: {row.skipped}", *["-"] * (len(TRIVIAL) + 1)]
    found = {each.output: each for each in row.outcomes}
    cells = [_passes(found[kind]) if kind in found else "-" for kind in TRIVIAL]
    closest = max((each.close_share for each in row.outcomes), default=0.0)
    return [problem, "" if row.reference_right else "the reference itself fails", *cells, f"{closest:.2%}"]


def _passes(outcome: TrivialOutcome) -> str:
    return " / ".join("PASS" if passed else "no" for passed in (outcome.allclose, outcome.judge))


def _counted(kind: str, problems: Sequence[str]) -> str:
    return f"{kind} on {len(problems)}" + (f" ({', '.join(problems)})" if problems else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
