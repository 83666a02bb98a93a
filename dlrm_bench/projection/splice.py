"""Put submissions into a recommender, check the whole model, and time whole steps beside the original.

Submissions run in this process, without the sandbox: splice only what the judge has found correct, and whose author you
trust. What ships with dlrm-bench (`solution:`, `baseline:`) has been judged; for all else the caller has to say so.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from dlrm_bench.environment import default_precision, describe
from dlrm_bench.errors import NoDeviceError, SubmissionError, UsageError
from dlrm_bench.problems import load_problems
from dlrm_bench.projection.modules import reference_modules, submitted_modules
from dlrm_bench.projection.sites import BagsSite, CrossSite, DotSite, Site, TablesSite
from dlrm_bench.projection.whole_model import check_whole
from dlrm_bench.records import Replacement, Saving, Splice, SpliceTimes
from dlrm_bench.submissions import SHIPPED, Submission, open_submissions
from dlrm_bench.timing.statistics import paired_speedup
from dlrm_bench.traces.capture import WARM_UP, step_times
from dlrm_bench.workloads.base import Build, Workload
from dlrm_bench.workloads.recommenders import Recommender
from dlrm_bench.workloads.registry import RECOMMENDERS

SCHEMA = 1
ROUNDS = 10
STEPS_PER_BLOCK = 5
SPLICED = (TablesSite.problem, BagsSite.problem, DotSite.problem, CrossSite.problem)
FUSED_TABLES = "the tables: in training fbgemm looks up, goes backward and updates in one operation, which stays"


def trusted_submissions(sources: Sequence[str], trust: bool) -> list[Submission]:
    """Open submissions for the problems that stand for parts of the recommenders.

    Args:
        sources: see `open_submissions`.
        trust: whether anything but `solution:NAME` and `baseline:NAME` may run in this process.

    Raises:
        UsageError: something else was named, and not trusted.
    """
    for source in sources:
        if source.partition(":")[0] not in SHIPPED and not trust:
            raise UsageError(
                f"{source} would run in this process, outside the sandbox; judge it first (`dlrm-bench check PROBLEM "
                f"{source}`), then say --trust if you trust who wrote it"
            )
    problems = load_problems()
    return open_submissions(sources, [problems.find(name) for name in SPLICED])


def splice(
    workload: Workload,
    build: Build,
    submissions: Sequence[Submission],
    device: torch.device,
    *,
    tiny: bool = False,
    projected: Sequence[Saving] = (),
) -> Splice:
    """Put submissions into a recommender, check it and time it.

    Where there is one for all tables in one call and one for a table a call, the first is put in.

    Args:
        workload: a recommender.
        build: of it.
        submissions: at most one a problem; see the module's word on trust.
        device: where to run.
        tiny: whether to take the tiny configuration.
        projected: what a projection said, to stand beside the measurement.

    Raises:
        UsageError: the workload is no recommender, or nothing in this build of it can be replaced.
        SubmissionError: two submissions for one problem, or one that cannot be built or trained.
        NoDeviceError: the full configuration was asked for on a CPU.
        CannotRunError: the spliced model does not run.
        UnfitReferenceError: the original itself is too far from what it would compute in float64.
    """
    if workload.name not in RECOMMENDERS:
        raise UsageError(
            f"nothing in {workload.name} has a problem that stands for it; {' or '.join(RECOMMENDERS)} has"
        )
    if device.type == "cpu" and not tiny:
        raise NoDeviceError(f"{workload.name} is a GPU's work; --tiny runs on a CPU")
    chosen = _one_a_problem(submissions)
    precision = default_precision(device)
    original: Any = workload.start(build, device, precision, tiny=tiny)
    sites, used = _sites(original, chosen)
    with tempfile.TemporaryDirectory() as folder:
        references = {site: reference_modules(site, device, precision) for site in sites}
        for site in sites:
            site.adopt(references[site])
        model, replacements = original.model, []
        for site in used:
            submission = chosen[site.problem]
            modules = submitted_modules(submission, site, references[site], Path(folder), precision)
            model = site.put(model, modules, backward=original.training)
            replacements.append(Replacement(site.problem, submission.label, submission.hash, site.place))
        spliced = dataclasses.replace(original, model=model)
        checks = check_whole(original, spliced, references, precision)
        correct = all(each.correct for each in checks)
        times = time_steps(original, spliced, device) if correct else None
    return Splice(
        schema=SCHEMA,
        workload=workload.label(build),
        mode=workload.mode,
        precision=precision,
        configuration={**msgspec.to_builtins(workload.configuration(tiny)), "build": build},
        replacements=replacements,
        not_covered=_not_covered(original, used),
        checks=checks,
        correct=correct,
        times=times,
        projected=list(projected),
        environment=describe(device),
    )


def time_steps(original: Recommender, spliced: Recommender, device: torch.device) -> SpliceTimes:
    """Time both in turn: A B B A, then B A A B, and so on."""
    for each in (original, spliced):
        step_times(each.step, WARM_UP, device)
    original_us: list[list[float]] = []
    spliced_us: list[list[float]] = []
    for done in range(ROUNDS):
        pair = [(original, original_us), (spliced, spliced_us)]
        order = pair if done % 2 == 0 else pair[::-1]
        for _, blocks in pair:
            blocks.append([])
        for each, blocks in (*order, *order[::-1]):
            blocks[-1].append(float(np.median(step_times(each.step, STEPS_PER_BLOCK, device))))
    speedup = paired_speedup(spliced_us, original_us)
    return SpliceTimes(
        steps_per_block=STEPS_PER_BLOCK,
        original_us=original_us,
        spliced_us=spliced_us,
        original_step_us=float(np.median(original_us)),
        spliced_step_us=float(np.median(spliced_us)),
        saved=1 - 1 / speedup.median,
        saved_low=1 - 1 / speedup.low,
        saved_high=1 - 1 / speedup.high,
        speedup=speedup.median,
        speedup_low=speedup.low,
        speedup_high=speedup.high,
    )


def _one_a_problem(submissions: Sequence[Submission]) -> dict[str, Submission]:
    chosen: dict[str, Submission] = {}
    for submission in submissions:
        other = chosen.setdefault(submission.problem.name, submission)
        if other is not submission:
            raise SubmissionError(f"two submissions for {other.problem.name}: {other.label} and {submission.label}")
    return chosen


def _sites(recommender: Recommender, chosen: dict[str, Submission]) -> tuple[list[Site], list[Site]]:
    """Return all sites of a recommender, and those where a submission goes."""
    alone = BagsSite.problem in chosen and TablesSite.problem not in chosen and recommender.build == "eager"
    tables: Site = BagsSite(recommender) if alone else TablesSite(recommender)
    interaction: Site = CrossSite(recommender) if recommender.config.cross_layers else DotSite(recommender)
    sites = [tables, interaction]
    used = [site for site in sites if site.problem in chosen and not _owned_by_fbgemm(site)]
    if not used:
        fitting = [site.problem for site in sites if not _owned_by_fbgemm(site)]
        raise UsageError(
            f"no submission fits the {recommender.build} build: it has a place for {' and '.join(fitting)}, "
            f"and was given {', '.join(chosen) or 'none'}"
        )
    return sites, used


def _owned_by_fbgemm(site: Site) -> bool:
    return site.place == TablesSite.place and site.recommender.training and site.recommender.build == "fused"


def _not_covered(recommender: Recommender, used: Sequence[Site]) -> list[str]:
    if not recommender.training:
        return []
    parts = [site.not_covered for site in used]
    return parts if recommender.build == "eager" else [FUSED_TABLES, *parts]
