"""The CUDA solutions are right on a GPU, on every case and in every precision; elsewhere they say what they lack."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch.utils.cpp_extension import CUDA_HOME

from dlrm_bench.evaluate import evaluate
from dlrm_bench.problems import ProblemSet
from dlrm_bench.records import Precision, Verdict
from dlrm_bench.settings import Settings
from dlrm_bench.submissions import solution

IDS = [4, 5]


def judged(problems: ProblemSet, id: int, precision: Precision, device: str) -> Verdict:
    settings = Settings(torch.device(device), "small", precision, effort=None)
    return evaluate(solution("cuda", problems.find(id)), settings).verdict


def test_there_is_one_for_the_problems_that_the_pages_name(problems: ProblemSet) -> None:
    folder = Path(__file__).parents[2] / "dlrm_bench/solutions/cuda"
    assert sorted(int(path.name.split("_")[0]) for path in folder.glob("[0-9]*.py")) == IDS


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("id", IDS)
def test_it_is_right_on_every_case(problems: ProblemSet, id: int, precision: Precision) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc")
    verdict = judged(problems, id, precision, "cuda:0")
    assert verdict.reasons == []


@pytest.mark.skipif(CUDA_HOME is not None, reason="torch finds a CUDA toolkit")
def test_without_a_toolkit_it_says_so(problems: ProblemSet) -> None:
    verdict = judged(problems, 4, "fp32", "cpu")
    assert [reason.reason for reason in verdict.reasons] == ["compile_error"]
    assert "CUDA_HOME" in verdict.reasons[0].message
