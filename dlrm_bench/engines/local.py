"""Evaluate many submissions on one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.records import Result
from dlrm_bench.runs import RunFolder
from dlrm_bench.submissions import Submission


def run_all(submissions: Sequence[Submission], settings: Settings, folder: RunFolder | None) -> Iterator[Result]:
    """Evaluate submissions problem by problem, so that baselines are compiled once, and yield each result as it ends.

    Args:
        submissions: what to evaluate, in any order.
        settings: how.
        folder: where results are written; what it has already is left out.
    """
    done = folder.done() if folder is not None else set()
    evaluator = Evaluator(settings)
    try:
        for submission in sorted(submissions, key=lambda each: each.problem.id):
            if (submission.label + submission.hash, submission.problem.hash) in done:
                continue
            result = evaluator.evaluate(submission)
            if folder is not None:
                folder.add(result)
            yield result
    finally:
        evaluator.close()
