"""The evaluator as a whole: what it does meanwhile, and what it does not wait for."""

from __future__ import annotations

import time
from contextlib import closing

import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem
from dlrm_bench.submissions import Submission

SECONDS = 100
CODE = f"""
import os, time
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        if "dlrm_bench_" in os.environ["HOME"]:
            time.sleep({SECONDS})

    def forward(self, x):
        return x * 2


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(16, 8)]
"""
WRONG = """
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 3
"""


def test_a_wrong_submission_waits_for_no_baseline() -> None:
    settings = Settings(torch.device("cpu"), "full", "fp32", effort="quick", baselines=("eager",))
    start = time.monotonic()
    with closing(Evaluator(settings, spares=0)) as evaluator:
        assert evaluator.evaluate(Submission("wrong", Problem(1, "Slow", CODE), WRONG)).status == "incorrect"
    assert time.monotonic() - start < SECONDS / 2
