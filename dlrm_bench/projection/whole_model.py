"""Is a spliced recommender still the same function? The judge's metrics on what the whole model computes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import nn

from dlrm_bench.correctness.metrics import Yardstick
from dlrm_bench.errors import CannotRunError, UnfitReferenceError
from dlrm_bench.projection.sites import Site
from dlrm_bench.records import Metrics, Precision, WholeCheck
from dlrm_bench.records.splice import Held
from dlrm_bench.workloads.recommenders import Recommender

MOST_OWN_ERROR: dict[Held, float] = {"output": 0.1, "gradient": 0.3, "output_after_a_step": 0.1}
"""Relative error of the original beyond which nothing can be held against it; a gradient is a sum of either sign."""


def check_whole(
    original: Recommender, spliced: Recommender, references: Mapping[Site, Sequence[Any]], precision: Precision
) -> list[WholeCheck]:
    """Hold the spliced model against the same model in float64, as the judge does, by the original's own error.

    In training also the gradient of the first layer, and the logits once more after the spliced model has taken a step,
    by which a submission that keeps a copy of old weights is found out.

    Args:
        original: the model as it was.
        spliced: the model with submissions in it; in training it takes a step.
        references: for each site the problem's reference modules.
        precision: dtype of weights and activations.

    Raises:
        CannotRunError: the spliced model does not run.
        UnfitReferenceError: the original itself is too far from what it would compute in float64.
    """
    _try(spliced)
    exact = _exact(original, references)
    checks = [_hold("output", [_logits(each) for each in (exact, original, spliced)], precision)]
    if original.training:
        checks.append(_hold("gradient", [_gradient(each) for each in (exact, original, spliced)], precision))
        spliced.step()
        exact = _exact(original, references)
        after = [_logits(each) for each in (exact, original, spliced)]
        checks.append(_hold("output_after_a_step", after, precision))
    return checks


def _try(spliced: Recommender) -> None:
    try:
        _logits(spliced)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise CannotRunError(f"the spliced model does not run here: {type(error).__name__}: {reason}") from error


def _exact(original: Recommender, references: Mapping[Site, Sequence[Any]]) -> Recommender:
    """Return the original in float64, with the problems' references in the places where submissions can go."""
    model = original.model
    for site, held in references.items():
        doubled = [copy.deepcopy(each).double() for each in held]
        site.refresh(doubled)
        model = site.put(model, doubled, backward=False)
    return dataclasses.replace(
        original,
        model=copy.deepcopy(model).double(),
        dense=original.dense.double(),
        labels=original.labels.double(),
        optimizers=[],
    )


@torch.no_grad()
def _logits(recommender: Recommender) -> torch.Tensor:
    return recommender.logits()


def _gradient(recommender: Recommender) -> torch.Tensor:
    model: Any = recommender.model
    first = next(each for each in model.dense_arch.modules() if isinstance(each, nn.Linear))
    return torch.autograd.grad(recommender.loss(recommender.logits()), first.weight)[0]


def _hold(what: Held, computed: Sequence[torch.Tensor], precision: Precision) -> WholeCheck:
    exact, original, spliced = computed
    yardstick = Yardstick.of(exact)
    own_error = yardstick.measure(original)
    if own_error.relative_l2 > MOST_OWN_ERROR[what]:
        raise UnfitReferenceError(
            f"the original's {what.replace('_', ' ')} is off by {own_error.relative_l2:.2g} of what it is in float64: "
            "no splice can be held against it"
        )
    thresholds = yardstick.thresholds(own_error, precision, terms=1)
    metrics = yardstick.measure(spliced)
    return WholeCheck(what, _within(metrics, thresholds), own_error, metrics, thresholds)


def _within(metrics: Metrics, thresholds: Metrics) -> bool:
    names = [each.name for each in msgspec.structs.fields(Metrics)]
    return all(getattr(metrics, name) <= getattr(thresholds, name) for name in names)
