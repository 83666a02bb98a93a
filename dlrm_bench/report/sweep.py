"""A sweep as a table and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dlrm_bench.errors import CannotRunError
from dlrm_bench.records import SweepPoint


def sweep_rows(points: Sequence[SweepPoint]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows: what was varied, the share of lookups that read a row of their own, times."""
    names = list(dict.fromkeys(name for point in points for name in _speedups(point)))
    header = [points[0].constant, "unique", "status", "time us", *(f"vs {name}" for name in names), "of floor"]
    return header, [_row(point, names) for point in points]


def draw(points: Sequence[SweepPoint], title: str, path: Path) -> None:
    """Draw speedup against what was varied; the format is the path's suffix.

    Raises:
        CannotRunError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise CannotRunError("a figure needs matplotlib: pip install 'dlrm-bench[plot]'") from error
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(name for point in points for name in _speedups(point)):
        timed = [(point.value, _speedups(point)[name]) for point in points if name in _speedups(point)]
        axes.plot(*zip(*timed, strict=True), marker="o", label=f"vs {name}")
    axes.axhline(1.0, color="gray", linewidth=0.8)
    if points[0].constant == "BATCH":
        axes.set_xscale("log", base=2)
    axes.set(xlabel=points[0].constant, ylabel="speedup", title=title)
    axes.legend()
    figure.savefig(path)


def _speedups(point: SweepPoint) -> dict[str, float]:
    measured = point.result.measurement
    comparisons = measured.comparisons if measured is not None else []
    return {each.baseline: each.speedup for each in comparisons if each.speedup is not None}


def _row(point: SweepPoint, names: Sequence[str]) -> list[str]:
    measured, speedups = point.result.measurement, _speedups(point)
    times = [f"{speedups[name]:.2f}" if name in speedups else "-" for name in names]
    if measured is None:
        return [f"{point.value:g}", "-", point.result.status, "-", *times, "-"]
    costs, roofline = measured.costs, measured.roofline
    unique = f"{costs.distinct_rows / costs.lookups:.1%}" if costs is not None and costs.lookups else "-"
    share = f"{roofline.share:.0%}" if roofline is not None else "-"
    return [f"{point.value:g}", unique, point.result.status, f"{measured.median_us:.1f}", *times, share]
