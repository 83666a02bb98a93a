"""Build references and submissions for a site, all with the same weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dlrm_bench.errors import SubmissionError
from dlrm_bench.precisions import DTYPES
from dlrm_bench.problems import load_problems
from dlrm_bench.projection.sites import Site
from dlrm_bench.records import Precision
from dlrm_bench.submissions import Submission

SEED = 30


def reference_modules(site: Site, device: torch.device, precision: Precision) -> list[Any]:
    """Build the problem's reference for each module of a site."""
    kind = load_problems().find(site.problem).namespace()["Model"]
    return [_build(kind, arguments, seed, device, precision) for seed, arguments in enumerate(site.arguments, SEED)]


def submitted_modules(
    submission: Submission, site: Site, references: Sequence[Any], folder: Path, precision: Precision
) -> list[nn.Module]:
    """Build a submission's modules under the seeds of the references, with the same memory for the same weights.

    Args:
        submission: trusted, since it runs in this process.
        site: where it goes.
        references: of the site.
        folder: for its text; must stay until its kernels have been compiled.
        precision: dtype of the weights.

    Raises:
        SubmissionError: it cannot be loaded or built, or it cannot be trained since it holds other weights.
    """
    kind = _model_new(submission, folder)
    modules = []
    for seed, (arguments, reference) in enumerate(zip(site.arguments, references, strict=True), SEED):
        try:
            module = _build(kind, arguments, seed, site.recommender.dense.device, precision)
        except Exception as error:
            raise SubmissionError(f"{_of(submission)} cannot be built: {type(error).__name__}: {error}") from error
        missing = _share(module, reference)
        if missing and site.recommender.training:
            raise SubmissionError(
                f"{_of(submission)} has no weight {missing[0]} as the reference has it, so it cannot be trained"
            )
        modules.append(module)
    return modules


def _model_new(submission: Submission, folder: Path) -> Callable[..., nn.Module]:
    # A file, since Triton reads its kernels' source.
    path = folder / f"spliced_{submission.hash[:16]}_{submission.problem.id}.py"
    path.write_text(submission.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        kind: Callable[..., nn.Module] = module.ModelNew
    except Exception as error:
        raise SubmissionError(f"{_of(submission)} cannot be loaded: {type(error).__name__}: {error}") from error
    return kind


def _build(
    kind: Callable[..., nn.Module], arguments: Sequence[Any], seed: int, device: torch.device, precision: Precision
) -> nn.Module:
    with torch.device(device):
        torch.manual_seed(seed)
        module = kind(*arguments)
    return module.to(device=device, dtype=DTYPES[precision])


def _share(module: nn.Module, reference: nn.Module) -> list[str]:
    """Let a module hold its weights where a reference does; return the names of those that it has not."""
    own = dict(module.named_parameters())
    missing = []
    for name, parameter in reference.named_parameters():
        if name in own and own[name].shape == parameter.shape:
            own[name].data = parameter.data
        else:
            missing.append(name)
    return missing


def _of(submission: Submission) -> str:
    return f"{submission.label} for {submission.problem.name}"
