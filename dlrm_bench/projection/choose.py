"""Which results a projection takes, and whether they fit the trace."""

from __future__ import annotations

from collections.abc import Sequence

from dlrm_bench.errors import MismatchError, UsageError
from dlrm_bench.records import Result, Trace

BASELINE_PREFIX = "baseline:"


def choose_results(results: Sequence[Result], submission: str | None) -> list[Result]:
    """Return one result a problem, all of one submission; of several for a problem the last.

    Args:
        results: of any submissions.
        submission: label of the one that is projected; the only one that is no baseline if left out.

    Raises:
        UsageError: there is no such submission, or more than one that could be meant.
    """
    labels = list(dict.fromkeys(result.submission for result in results))
    if not labels:
        raise UsageError("there are no results to project")
    if submission is None:
        meant = [label for label in labels if not label.startswith(BASELINE_PREFIX)] or labels
        if len(meant) > 1:
            raise UsageError(f"these results are of {', '.join(meant)}; choose one with --submission LABEL")
        submission = meant[0]
    if submission not in labels:
        raise UsageError(f"no results of {submission!r}; there are {', '.join(labels)}")
    return list({result.problem: result for result in results if result.submission == submission}.values())


def differences(trace: Trace, results: Sequence[Result]) -> list[str]:
    """Return in what results differ from a trace, each in a few words."""
    gpus = sorted({result.environment.device for result in results} - {trace.provenance.gpu})
    precisions = sorted({result.precision for result in results} - {trace.precision})
    found = []
    if gpus:
        found.append(f"results from {', '.join(gpus)}, trace from {trace.provenance.gpu}")
    if precisions and trace.precision is not None:
        found.append(f"results in {', '.join(precisions)}, trace in {trace.precision}")
    return found


def check_fit(trace: Trace, results: Sequence[Result], force: bool) -> list[str]:
    """Return in what results differ from a trace if that is overridden, nothing if they fit.

    Raises:
        MismatchError: they differ, and `force` is off.
    """
    found = differences(trace, results)
    if found and not force:
        raise MismatchError(f"{'; '.join(found)}; --force projects all the same, and says so")
    return found
