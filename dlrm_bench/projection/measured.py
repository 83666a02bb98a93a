"""What was projected, beside what a splice measured: on the trace of its workload, for no more than was put in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dlrm_bench.errors import MismatchError, MissingFileError, UsageError
from dlrm_bench.projection.paper import paper_saving_of
from dlrm_bench.projection.project import project
from dlrm_bench.records import Result, Saving, Splice, Trace
from dlrm_bench.traces.policies import DEFAULT_POLICY, find_policy
from dlrm_bench.traces.summary import addressable_fractions


def read_splices(path: Path) -> list[Splice]:
    """Read what `splice --json` printed, one splice a line.

    Raises:
        MissingFileError: the file cannot be read.
        UsageError: a line is no splice, or there is none.
    """
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise MissingFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        splices = [msgspec.json.decode(line, type=Splice) for line in lines]
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not what `dlrm-bench splice --json` prints, one a line: {error}") from error
    if not splices:
        raise UsageError(f"{path} holds no splice")
    return splices


def project_spliced(done: Splice, trace: Trace, results: Sequence[Result], policy: str = DEFAULT_POLICY) -> Splice:
    """Return a splice with what projections say of the same submissions on its workload's trace.

    Matched and replay take only the problems whose submissions were put in. The paper's formula is of a submission's
    results as a whole.

    Args:
        done: the splice.
        trace: of the same workload, taken on the same GPU.
        results: the spliced submissions' among them.
        policy: what counts as addressable.

    Raises:
        MismatchError: the trace is of something else, or the results are of other texts.
        UsageError: there are no results for what was put in, or several submissions were.
    """
    _check_same_workload(done, trace)
    put_in = {each.problem: each for each in done.replacements}
    labels = {each.submission for each in done.replacements}
    whole = [each for each in results if each.submission in labels]
    chosen = [each for each in whole if each.problem in put_in]
    missing = sorted(put_in.keys() - {each.problem for each in chosen})
    if missing:
        raise UsageError(f"there are no results of {', '.join(sorted(labels))} for {', '.join(missing)}")
    for each in chosen:
        if each.submission_hash != put_in[each.problem].submission_hash:
            raise MismatchError(
                f"{each.submission} for {each.problem} had another text when it was timed than in the splice; "
                "take --results of a run of the text that was put in"
            )
    projection = project(trace, chosen, policy=policy)
    fractions = {each.denominator: each.fraction for each in addressable_fractions(trace, find_policy(policy))}
    savings: list[Saving | None] = [
        projection.saving("matched"),
        projection.saving("replay"),
        paper_saving_of(fractions["kernels"], whole),
    ]
    return msgspec.structs.replace(done, projected=[each for each in savings if each is not None])


def _check_same_workload(done: Splice, trace: Trace) -> None:
    pairs = {
        "workload": (done.workload, trace.workload),
        "GPU": (done.environment.device, trace.provenance.gpu),
        "precision": (done.precision, trace.precision),
        "configuration": (done.configuration, trace.configuration),
    }
    for what, (spliced, profiled) in pairs.items():
        if spliced != profiled:
            said = f": {spliced}, not {profiled}" if isinstance(spliced, str) else ""
            raise MismatchError(f"the splice of {done.workload} has another {what} than the trace{said}")
