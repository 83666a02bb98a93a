"""Every way in which a submission can end, as a person would type it, and that the next one still runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import Result
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import Submission, baseline

SECONDS = 6.0
SECONDS_OF_A_HANG = 2.0
HEAD = """
import os, signal, sys, time
import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, rows, dim, weight_scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def right(self, indices, offsets):
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices, offsets):
"""


def evaluator_with(seconds: float) -> Evaluator:
    limits = Limits.within(seconds, 1 << 30)
    return Evaluator(Settings(torch.device("cpu"), "small", "fp32", effort=None, cases=("default",), limits=limits))


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with closing(evaluator_with(SECONDS)) as running:
        yield running


@pytest.fixture(scope="module")
def impatient() -> Iterator[Evaluator]:
    with closing(evaluator_with(SECONDS_OF_A_HANG)) as running:
        yield running


@pytest.fixture
def first(problems: ProblemSet) -> Problem:
    return problems[0]


def result_of(evaluator: Evaluator, problem: Problem, source: str) -> Result:
    return evaluator.evaluate(Submission("mine", problem, source))


def forward(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines())


FILES = {
    "syntax error": ("class ModelNew(:\n    pass\n", "compile_error", "SyntaxError: invalid syntax (line 1)"),
    "empty file": ("", "compile_error", "no class ModelNew"),
    "no ModelNew": ("class Model:\n    pass\n", "compile_error", "no class ModelNew"),
    "ModelNew is no class": ("ModelNew = 3\n", "compile_error", "no class ModelNew"),
    "raises at import": ("x = 1\nraise ValueError('not today')\n", "compile_error", "ValueError: not today (line 2)"),
    "exits at import": ("import sys\nsys.exit(0)\n", "compile_error", "SystemExit: 0 (line 2)"),
    "missing package": ("import a_package_that_is_not_there\n", "unsupported", "a_package_that_is_not_there"),
    "hangs at import": ("while True:\n    pass\n", "timeout", "no answer within"),
    "constructor raises": (
        "class ModelNew:\n    def __init__(self, *sizes):\n        raise RuntimeError('no weights')\n",
        "runtime_error",
        "no weights (line 3)",
    ),
    "constructor takes nothing": ("class ModelNew:\n    pass\n", "runtime_error", "TypeError"),
}
FORWARDS = {
    "raises": ("raise KeyError('indices')", "runtime_error", "KeyError: 'indices' (line 17)"),
    "says it cannot": ("raise NotImplementedError('only on a GPU')", "unsupported", "only on a GPU"),
    "returns None": ("return None", "incorrect", "forward returned NoneType"),
    "returns a tuple": ("return (self.right(indices, offsets),)", "incorrect", "forward returned tuple"),
    "returns a parameter": ("return self.weight", "incorrect", "forward returned Parameter"),
    "wrong shape": ("return self.right(indices, offsets)[:, :-1]", "incorrect", "returned shape (64, 31)"),
    "wrong dtype": ("return self.right(indices, offsets).double()", "incorrect", "returned dtype float64"),
    "wrong device": ("return self.right(indices, offsets).to('meta')", "incorrect", "returned device meta"),
    "NaN": ("return self.right(indices, offsets) * float('nan')", "incorrect", "2048 of 2048 elements are not finite"),
    "loops for ever": ("while True: pass", "timeout", "no answer within"),
    "sleeps for ever": ("time.sleep(1000)", "timeout", "no answer within"),
    "os._exit(0)": ("os._exit(0)", "crash", "ended with exit code 0"),
    "abort": ("os.abort()", "crash", "killed by SIGABRT"),
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", "crash", "killed by SIGSEGV"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "crash", "killed by SIGKILL"),
    "sys.exit": ("sys.exit(3)", "runtime_error", "SystemExit: 3"),
    "takes all memory": ("held = []\nwhile True: held.append(torch.ones(1 << 26))", "out_of_memory", "memory"),
    "python memory": ("held = bytearray(1 << 34)", "out_of_memory", "MemoryError"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used(evaluator: Evaluator, impatient: Evaluator, first: Problem, name: str) -> None:
    source, status, words = FILES[name]
    result = result_of(impatient if status == "timeout" else evaluator, first, source)
    assert (result.status, result.correct) == (status, False)
    assert words in result.verdict.reasons[0].message


@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_that_does_not_answer(evaluator: Evaluator, impatient: Evaluator, first: Problem, name: str) -> None:
    body, status, words = FORWARDS[name]
    result = result_of(impatient if status == "timeout" else evaluator, first, forward(body))
    assert (result.status, result.correct) == (status, False)
    assert words in result.verdict.reasons[0].message


def test_what_it_prints_goes_nowhere(evaluator: Evaluator, first: Problem, capfd: pytest.CaptureFixture[str]) -> None:
    body = "print('x' * 1_000_000)\nos.write(2, b'y' * 1_000_000)\nreturn self.right(indices, offsets)"
    assert result_of(evaluator, first, forward(body)).status == "correct"
    assert capfd.readouterr() == ("", "")


def test_its_last_words_are_kept(evaluator: Evaluator, first: Problem) -> None:
    result = result_of(evaluator, first, forward("print('going down', flush=True)\nos._exit(7)"))
    assert "exit code 7" in result.verdict.reasons[0].message
    assert "going down" in result.verdict.reasons[0].message


def test_the_next_one_runs(evaluator: Evaluator, first: Problem) -> None:
    assert result_of(evaluator, first, forward("os.abort()")).status == "crash"
    assert evaluator.evaluate(baseline("eager", first)).status == "correct"
