"""The dataset's card: what the Hub shows, every figure of it taken from a problem's card or from a record."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from dlrm_bench.problems import Problem
from dlrm_bench.records import Result, Trace
from dlrm_bench.report.text import markdown, provenance, result_rows, summary_rows

_HEAD = """---
license: apache-2.0
pretty_name: dlrm-bench
language:
- code
tags:
- code
- gpu-kernels
- triton
- cuda
- recommender-systems
- kernelbench
configs:
{configs}
---

# dlrm-bench

{count} recommender kernel problems in KernelBench format ({families}), the records of a judge and a clock, and the
profiles of workloads. Everything below is taken from the problems' cards and from the records in this dataset.

    pip install 'dlrm-bench[hf]'
    dlrm-bench eval my_kernels/ --problems hf:OWNER/NAME -o runs/mine

`code` is what a model is shown, and what a harness runs; `code`, `level`, `name` and `problem_id` are KernelBench's
columns. The rest are facts about the problem, `card` all of them as JSON, `hash` the SHA-256 of `code`.

## Problems
"""


def dataset_card(
    problems: Sequence[Problem],
    results: Mapping[str, Sequence[Result]],
    traces: Mapping[str, Sequence[Trace]],
    paths: Sequence[str],
) -> str:
    """Return the text of the card.

    Args:
        problems: the rows of the default configuration.
        results: the records that its tables are made from, by split.
        traces: the same of the profiles.
        paths: files of the dataset, `data/` those of the default configuration, others in its name's folder.
    """
    families = Counter(problem.card.family for problem in problems if problem.card)
    head = _HEAD.format(
        configs=_configs(paths),
        count=len(problems),
        families=", ".join(f"{count} {family}" for family, count in families.items()),
    )
    parts = [head, markdown(*_problem_rows(problems)), ""]
    for split, found in results.items():
        if found:
            parts += [f"## Results: {split}", "", *_results(found), ""]
    for split, profiles in traces.items():
        parts += [f"## Traces: {split}", "", markdown(*_trace_rows(profiles)), ""]
    return "\n".join(parts)


def _configs(paths: Sequence[str]) -> str:
    lines: list[str] = []
    for folder, group in itertools.groupby(paths, lambda path: path.split("/")[0]):
        name = ["config_name: default", "  default: true"] if folder == "data" else [f"config_name: {folder}"]
        lines += [f"- {name[0]}", *name[1:], "  data_files:"]
        for path in group:
            lines += [f"  - split: {path.split('/')[1].split('-')[0]}", f"    path: {path}"]
    return "\n".join(lines)


def _problem_rows(problems: Sequence[Problem]) -> tuple[list[str], list[list[str]]]:
    header = ["id", "name", "family", "bound", "library", "cases", "title"]
    return header, [
        [str(each.id), each.name, each.card.family, each.card.bound, each.card.library, str(len(each.cases)), title]
        for each in problems
        if each.card and (title := each.card.title)
    ]


def _results(results: Sequence[Result]) -> list[str]:
    made_in = [f"- {line}" for line in provenance(results)]
    return [markdown(*result_rows(results)), "", markdown(*summary_rows(results)), "", "Made in:", "", *made_in]


def _trace_rows(traces: Sequence[Trace]) -> tuple[list[str], list[list[str]]]:
    header = ["workload", "mode", "precision", "GPU", "torch", "steps", "wall us", "busy us", "kernels", "launches"]
    return header, [
        [
            trace.workload,
            trace.mode or "-",
            trace.precision or "-",
            trace.provenance.gpu,
            trace.provenance.torch or "-",
            str(len(trace.profiled_wall_us)),
            _median(trace.wall_us or trace.profiled_wall_us),
            _median(trace.busy_us),
            str(len({row.kernel for row in trace.rows})),
            str(sum(row.launches for row in trace.rows)),
        ]
        for trace in traces
    ]


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f}" if values else "-"
