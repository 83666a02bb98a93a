"""Evaluate many submissions on one device."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from dlrm_bench.environment import describe
from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.records import SCHEMA, Result, RunRecord
from dlrm_bench.runs import RunFolder
from dlrm_bench.submissions import Submission


def record_of(sources: Sequence[str], submissions: Sequence[Submission], settings: Settings) -> RunRecord:
    """Return what a run is asked for, as its folder keeps it.

    Args:
        sources: where the submissions came from.
        submissions: what will be evaluated.
        settings: how.
    """
    return RunRecord(
        schema=SCHEMA,
        submissions=list(sources),
        problems=list(dict.fromkeys(each.problem.name for each in submissions)),
        size=settings.size,
        precision=settings.precision,
        baselines=list(settings.baselines),
        effort=settings.effort,
        device=settings.device.type,
        environment=describe(settings.device),
        time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def run_all(
    submissions: Sequence[Submission], settings: Settings, folder: RunFolder | None, ahead: int = 1
) -> Iterator[Result]:
    """Evaluate submissions problem by problem, so that baselines are compiled once, and yield each result as it ends.

    Args:
        submissions: what to evaluate, in any order.
        settings: how.
        folder: where results are written; what it has already is left out.
        ahead: of how many problems the baselines compile at the same time; each takes memory of its own.
    """
    done = folder.done() if folder is not None else set()
    missing = [each for each in submissions if (each.label + each.hash, each.problem.hash) not in done]
    by_problem = [list(same) for _, same in groupby(sorted(missing, key=_problem_id), key=_problem_id)]
    evaluator = Evaluator(settings)
    try:
        for start in range(0, len(by_problem), ahead):
            several = by_problem[start : start + ahead]
            if settings.effort is not None:
                evaluator.prepare([same[0].problem for same in several])
            for submission in chain.from_iterable(several):
                result = evaluator.evaluate(submission)
                if folder is not None:
                    folder.add(result)
                yield result
    finally:
        evaluator.close()


def _problem_id(submission: Submission) -> int:
    return submission.problem.id
