"""Children, and lines of code to run in one as a submission's forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import torch

from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.limits import Limits

LIMITS = Limits(memory_bytes=1 << 30, call_s=10, first_call_s=10)
SUBMISSION = """
import os, resource, socket, subprocess, sys, time
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, body):
        found = {**globals(), "output": torch.ones(1)}
        exec(body, found)
        return found["output"]
"""


def runner_of(child: Child) -> Callable[[str], str]:
    child.load(SUBMISSION)
    child.build([], 0, "fp32")
    return lambda body: child.call([body], 0x7F).kind


@pytest.fixture
def child() -> Iterator[Child]:
    with closing(Child(torch.device("cpu"), LIMITS)) as running:
        yield running


@pytest.fixture
def run(child: Child) -> Callable[[str], str]:
    """Run some lines as a submission's forward, in a child that the test may end, and return what `output` is."""
    return runner_of(child)


@pytest.fixture(scope="module")
def lasting() -> Iterator[Child]:
    """A child for all tests of a module that leave it as it was."""
    with closing(Child(torch.device("cpu"), LIMITS)) as running:
        yield running


@pytest.fixture(scope="module")
def do(lasting: Child) -> Callable[[str], str]:
    """Run some lines in the lasting child, and return what `output` is."""
    return runner_of(lasting)


@pytest.fixture
def needs(lasting: Child) -> Callable[[str], None]:
    """Skip the test if this system does not grant a protection."""

    def check(name: str) -> None:
        lasting.wait()
        if name not in lasting.protections:
            pytest.skip(f"this system does not grant {name}")

    return check
