"""What a workload is: a model built from an explicit configuration, and one step of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import torch
from torch import nn

from dlrm_bench.errors import MissingPackageError, UsageError
from dlrm_bench.libraries import installed_version
from dlrm_bench.records import Mode, Precision, Record

Build = Literal["eager", "fused"]
BUILDS: tuple[Build, ...] = get_args(Build)
SEED = 20


class Ready(Protocol):
    """A workload that has been built on a device."""

    @property
    def model(self) -> nn.Module:
        """The model."""

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Modules whose kernels a profile shows under a name of their own."""

    def step(self) -> torch.Tensor:
        """Run one step and return what it computes: an output, or the loss of a training step."""


@dataclass(frozen=True)
class Workload:
    """A model step.

    Attributes:
        name: what it is called.
        about: one line on what it is.
        mode: whether a step also goes backward and updates weights.
        full: the configuration for a GPU of 80 GB or more.
        tiny: one that runs on a CPU in seconds.
        make: builds it from a configuration, a build, a device and a precision, under a fixed seed.
        builds: ways in which people build it; all but recommenders have one.
    """

    name: str
    about: str
    mode: Mode
    full: Record
    tiny: Record
    make: Callable[[Any, Build, torch.device, Precision], Ready]
    builds: tuple[Build, ...] = ("eager",)

    def configuration(self, tiny: bool) -> Record:
        """Return one of its two configurations."""
        return self.tiny if tiny else self.full

    def start(self, build: Build, device: torch.device, precision: Precision, *, tiny: bool = False) -> Ready:
        """Build it.

        Raises:
            UsageError: nobody builds it so.
            MissingPackageError: a library that supplies the model is not installed.
        """
        if build not in self.builds:
            raise UsageError(f"{self.name} has no build {build!r}; there is {', '.join(self.builds)}")
        torch.manual_seed(SEED)
        return self.make(self.configuration(tiny), build, device, precision)

    def label(self, build: Build) -> str:
        """Return the name of this build of it."""
        return self.name if len(self.builds) == 1 else f"{self.name}-{build}"


@dataclass
class ForwardStep:
    """An inference step.

    Attributes:
        model: the model.
        forward: computes the output.
        parts: see `Ready`.
    """

    model: nn.Module
    forward: Callable[[], torch.Tensor]
    parts: dict[str, nn.Module] = field(default_factory=dict)

    @torch.inference_mode()
    def step(self) -> torch.Tensor:
        """Run it forward."""
        return self.forward()


@dataclass
class TrainingStep:
    """A training step: forward, backward, update.

    Attributes:
        model: the model.
        loss: computes the loss.
        optimizers: what updates the weights.
        parts: see `Ready`.
    """

    model: nn.Module
    loss: Callable[[], torch.Tensor]
    optimizers: list[torch.optim.Optimizer]
    parts: dict[str, nn.Module] = field(default_factory=dict)

    def step(self) -> torch.Tensor:
        """Run it forward and backward, and update the weights."""
        loss = self.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def transformers() -> Any:
    """Import the library of most models, or say which command brings it."""
    if installed_version("transformers") is None:
        raise MissingPackageError("transformers is not installed; pip install 'transformers>=5,<6'")
    return importlib.import_module("transformers")
