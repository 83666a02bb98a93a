"""What the index data of a problem looks like: bag lengths, reuse of rows, and how hot the hottest are.

Index data decides how fast an embedding kernel is, so every figure here is measured on the tensors that were drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from dlrm_bench.problems import Problem
from dlrm_bench.records import Constant, IndexStatistics


def index_statistics(
    problem: Problem, constants: Mapping[str, Constant], inputs: Mapping[str, Any]
) -> IndexStatistics | None:
    """Measure the index data of one set of inputs.

    Args:
        problem: whose inputs they are.
        constants: the module constants they were drawn under.
        inputs: tensors by the names of `forward`'s arguments.

    Returns:
        The statistics, or `None` for a problem without bags.
    """
    if problem.card is None or problem.card.bags is None:
        return None
    lengths = inputs[problem.card.bags.offsets].diff()
    counts = torch.cat(row_counts(problem, constants, inputs) or [torch.empty(0, dtype=torch.int64)])
    used = counts[counts > 0].sort(descending=True).values
    lookups = int(counts.sum())
    return IndexStatistics(
        bags=lengths.numel(),
        mean_length=float(lengths.double().mean()) if lengths.numel() else 0.0,
        p99_length=float(lengths.double().quantile(0.99)) if 0 < lengths.numel() < 1 << 24 else 0.0,
        longest=int(lengths.max()) if lengths.numel() else 0,
        empty_share=float((lengths == 0).double().mean()) if lengths.numel() else 0.0,
        lookups=lookups,
        distinct_rows=used.numel(),
        top_percent_share=float(used[: max(1, used.numel() // 100)].sum()) / lookups if lookups else 0.0,
    )


def row_counts(problem: Problem, constants: Mapping[str, Constant], inputs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return how often each row of each table is looked up: one [rows] int64 a table, none without tables."""
    card = problem.card
    if card is None or card.tables is None or card.bags is None:
        return []
    rows = constants[card.tables.rows]
    tables = [int(each) for each in rows] if isinstance(rows, list) else [int(rows)]
    indices, offsets = inputs[card.tables.indices], inputs[card.bags.offsets]
    if offsets.numel() == 1:
        return [torch.zeros(count, dtype=torch.int64, device=offsets.device) for count in tables]
    bounds = offsets[:: (offsets.numel() - 1) // len(tables)].tolist()
    return [
        torch.bincount(indices[begin:end], minlength=count)
        for begin, end, count in zip(bounds[:-1], bounds[1:], tables, strict=True)
    ]
