"""The figure of the reference workloads: a step's time by class of kernel, and what was projected beside measured.

What vendors' libraries own is grey, everything else has a colour; both can be told apart without seeing colours well.
The same records give the same bytes with the same matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlrm_bench.errors import MissingFileError, MissingPackageError, UsageError
from dlrm_bench.records import Method, Splice, TraceSummary
from dlrm_bench.report.workloads import operation_us

REST = "everything else"
IDLE = "GPU idle"
# Colours are Okabe's and Ito's. An operation that no entry names is a part of the rest.
CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "matrix products": ("#4d4d4d", ("gemm", "sparse_gemm")),
    "convolution": ("#808080", ("convolution",)),
    "attention": ("#b3b3b3", ("attention",)),
    "embedding": ("#d55e00", ("embedding_forward", "embedding_backward", "embedding_cache")),
    "normalization": ("#009e73", ("normalization",)),
    "elementwise": ("#56b4e9", ("elementwise",)),
    "reduction, softmax, loss": ("#0072b2", ("reduction", "softmax", "loss")),
    "gather, sort, coalesce": ("#cc79a7", ("gather_scatter", "sort_scan", "coalesce", "sparse_data")),
    "copy, memory copy": ("#e69f00", ("copy", "memory_copy")),
    REST: ("#f0e442", ()),
}
# Name, mark, colour, and how far below the row's middle.
MARKS: dict[Method, tuple[str, str, str, float]] = {
    "matched": ("matched", "o", "#0072b2", -0.22),
    "replay": ("replay", "^", "#d55e00", 0.0),
    "paper": ("paper's formula", "x", "#009e73", 0.22),
}
MARK_SIZE = {"markersize": 7, "markeredgewidth": 1.6}
LEAST_LABELLED = 0.055
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "dlrm-bench",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.axisbelow": True,
}


def draw_figure(summaries: Sequence[TraceSummary], splices: Sequence[Splice], path: Path) -> None:
    """Draw workloads' steps by class, and below them what was projected beside what was measured.

    Args:
        summaries: of the workloads' traces.
        splices: correct ones, with their projections.
        path: where to; .svg, .png or .pdf. There must be no such file.

    Raises:
        UsageError: there is such a file, or matplotlib writes none of that kind.
        MissingFileError: it cannot be written.
        MissingPackageError: matplotlib is not installed.
    """
    if path.exists():
        raise UsageError(f"{path} exists already; remove it or choose another name")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("a figure needs matplotlib: pip install 'dlrm-bench[plot]'") from error
    with mpl.rc_context(SETTINGS):
        rows = [len(summaries) + 1, 1.4 * len(splices) + 1]
        figure = Figure(figsize=(9.6, 0.36 * sum(rows) + 2.6), layout="constrained")
        steps, savings = figure.subplots(2, 1, height_ratios=rows)
        _draw_steps(steps, summaries)
        _draw_savings(savings, splices)
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=160)
        except ValueError as error:
            raise UsageError(f"{path.name}: {error}") from error
        except OSError as error:
            raise MissingFileError(f"cannot write {path}: {error.strerror}") from error


def _draw_steps(axes: Any, summaries: Sequence[TraceSummary]) -> None:
    names = [each.workload for each in summaries]
    shares = [_class_shares(each) for each in summaries]
    left = [0.0] * len(names)
    for name in (*CLASSES, IDLE):
        colour, edge = (CLASSES[name][0], "white") if name in CLASSES else ("white", "#808080")
        widths = [each[name] for each in shares]
        axes.barh(names, widths, left=left, color=colour, edgecolor=edge, linewidth=0.6, label=name, height=0.72)
        for place, width in enumerate(widths):
            if width >= LEAST_LABELLED:
                middle = left[place] + width / 2
                axes.text(middle, place, f"{width:.0%}", ha="center", va="center", fontsize=8, color=_ink(colour))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, each in enumerate(summaries):
        axes.text(1.012, place, f"{each.wall_us / 1000:.1f} ms", va="center", fontsize=8.5)
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    _percent(axes, f"share of a step's wall, {summaries[0].gpu}, {summaries[0].precision}")
    axes.set_title("What a step's time goes to: grey is what vendors' libraries own", loc="left", fontsize=10.5)
    axes.legend(loc="upper left", bbox_to_anchor=(1.09, 1.02), frameon=False, fontsize=8.5)


def _draw_savings(axes: Any, splices: Sequence[Splice]) -> None:
    names = [each.workload for each in splices]
    for place, done in enumerate(splices):
        times = done.times
        assert times is not None
        label = "measured, with its 95%" if place == 0 else None
        axes.fill_betweenx(ends := [place - 0.34, place + 0.34], times.saved_low, times.saved_high, color="#cccccc")
        axes.plot([times.saved] * 2, ends, color="black", linewidth=2, label=label)
        free = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(times.saved, place - 0.4, f"{times.saved:.1%}", ha="center", va="bottom", fontsize=8, bbox=free)
        for saving in done.projected:
            _, mark, colour, shift = MARKS[saving.method]
            face = colour if saving.valid else "white"
            axes.plot(saving.saved, place + shift, mark, color=colour, markerfacecolor=face, **MARK_SIZE)
    for label, mark, colour, _ in MARKS.values():
        axes.plot([], [], mark, color=colour, label=label, **MARK_SIZE)
    label, mark, colour, _ = MARKS["replay"]
    axes.plot([], [], mark, color=colour, markerfacecolor="white", label=f"{label}, not valid", **MARK_SIZE)
    axes.axvline(0, color="#808080", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.75)
    _percent(axes, "share of the step that is saved; below zero the step gets longer")
    axes.set_title("Projected against measured, with kernels put in", loc="left", fontsize=10.5)
    axes.legend(loc="upper left", bbox_to_anchor=(1.09, 1.04), frameon=False, fontsize=8.5)


def _class_shares(summary: TraceSummary) -> dict[str, float]:
    """Return each class's share of the step's wall, and the share that is left to a GPU at rest."""
    times = operation_us(summary)
    kernels = times.total()
    shares = {name: sum(times.pop(each, 0) for each in members) for name, (_, members) in CLASSES.items()}
    shares[REST] = sum(times.values())
    return {
        **{name: us / summary.wall_us for name, us in shares.items()},
        IDLE: max(0.0, 1 - kernels / summary.wall_us),
    }


def _percent(axes: Any, label: str) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel(label)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _ink(colour: str) -> str:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
