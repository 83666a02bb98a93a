"""A reward for whatever a model writes: a number and a reason, and nothing else happens."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.errors import CannotRunError, UnknownProblemError
from dlrm_bench.interop.reward import close, reward, reward_of
from dlrm_bench.problems import ProblemSet
from dlrm_bench.records import CHEATING, Comparison, Reason, Result, Reward, Verdict
from dlrm_bench.submissions import baseline

Make = Callable[..., Any]
JUDGE = {"device": "cpu", "effort": None, "cases": ["default"]}
ATTACK = "state_right_for_30_calls.py"
PADDED = 11


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    close()


@pytest.fixture(scope="module")
def eager(problems: ProblemSet) -> str:
    return baseline("eager", problems.find(PADDED)).source


# --- the scheme ----------------------------------------------------------------------------------


def timed(make_result: Make, make_comparison: Make, *lows: float) -> Result:
    comparisons: list[Comparison] = [
        msgspec.structs.replace(make_comparison(f"baseline_{number}", 5.0, "win"), low=low)
        for number, low in enumerate(lows)
    ]
    return make_result(comparisons=comparisons)


def test_right_is_worth_what_is_sure_beside_the_best_baseline(make_result: Make, make_comparison: Make) -> None:
    found = reward_of(timed(make_result, make_comparison, 3.0, 1.0, 7.0))
    assert (found.value, found.reason, found.speedup) == (1.0, "correct", 1.0)
    assert found.message == "right, and at least 1.000 times as fast as baseline_1"
    assert reward_of(timed(make_result, make_comparison, 3.0)).value == 2.0


def test_right_is_worth_more_than_wrong_and_more_the_faster(make_result: Make, make_comparison: Make) -> None:
    values = [reward_of(timed(make_result, make_comparison, low)).value for low in (0.01, 0.5, 1.0, 1.1, 2.0, 10.0)]
    assert [0.0, *values] == sorted({0.0, *values})
    assert all(map(math.isfinite, values))


def test_right_without_a_baseline_beside_it_says_so(make_result: Make, make_comparison: Make) -> None:
    failed = [Comparison("eager", "crash", "it crashed")]
    assert reward_of(make_result(comparisons=failed)).reason == "not_timed"
    assert reward_of(make_result(comparisons=failed)).value == 0
    assert reward_of(make_result()) == Reward(1.0, "correct", "right, and not timed", result=make_result())


@pytest.mark.parametrize("status", ["incorrect", "compile_error", "runtime_error", "timeout", "crash", "out_of_memory"])
def test_wrong_is_nothing(make_result: Make, status: str) -> None:
    found = reward_of(make_result(status=status))
    assert (found.value, found.reason, found.message) == (0.0, "relative_l2", "off by a lot")


@pytest.mark.parametrize("reason", CHEATING)
def test_cheating_is_worse_than_wrong(make_result: Make, reason: Any) -> None:
    reasons = [Reason("worst_row", "a row is off"), Reason(reason, "caught")]
    found = reward_of(make_result(status="crash", verdict=Verdict("incorrect", False, reasons, [], 0.1)))
    assert (found.value, found.reason, found.message) == (-1.0, reason, "caught")


# --- whatever is written -------------------------------------------------------------------------

WRITTEN = {
    "": "compile_error",
    "half a pair \ud83d": "compile_error",
    "import os\nos._exit(0)": "crash",
}
SLOWLY_WRITTEN = {
    "class ModelNew:\n    def __init__(self, *a):\n        raise SystemExit": "runtime_error",
    "x = '\0'": "compile_error",
    "x = " + "(" * 100_000: "compile_error",
    "while True: pass": "timeout",
    "x = [0] * (1 << 40)": "out_of_memory",
    "print('x' * 10_000_000)": "compile_error",
}


@pytest.mark.parametrize(("source", "reason"), WRITTEN.items(), ids=lambda each: repr(each)[:20])
def test_nothing_that_is_written_makes_it_raise(source: str, reason: str) -> None:
    found = reward(source, PADDED, **JUDGE)
    assert (found.value, found.reason) == (0.0, reason)
    assert found.message


@pytest.mark.slow
@pytest.mark.parametrize(("source", "reason"), SLOWLY_WRITTEN.items(), ids=lambda each: repr(each)[:20])
def test_nor_does_anything_that_takes_longer(source: str, reason: str) -> None:
    found = reward(source, PADDED, timeout=10, **JUDGE)
    assert (found.value, found.reason) == (0.0, reason)


def test_right_and_wrong_are_told_apart(eager: str) -> None:
    right, wrong = (
        reward(source, "JaggedToPadded", **JUDGE) for source in (eager, eager.replace("return ", "return 2 * "))
    )
    assert (right.value, right.reason) == (1.0, "correct")
    assert (wrong.value, wrong.reason) == (0.0, "not_exact")
    assert right.result is not None
    assert (right.result.size, right.result.precision) == ("small", "fp32")


@pytest.mark.slow
def test_an_attack_is_worse_than_nothing(root: Path) -> None:
    source = (root / "tests" / "attacks" / "submissions" / ATTACK).read_text()
    found = reward(source, 1, **JUDGE)
    assert (found.value, found.reason) == (-1.0, "wrong_while_timed")


@pytest.mark.slow
def test_what_is_timed_is_worth_its_speedup(eager: str) -> None:
    found = reward(eager, PADDED, device="cpu", cases=["default"], baselines=["eager"])
    assert found.reason == "correct"
    assert found.speedup is not None
    assert 0.5 < found.speedup < 1.5
    assert found.value == math.log2(1 + found.speedup)


# --- and nothing else happens --------------------------------------------------------------------


def test_what_cannot_be_judged_by_anybody_is_an_error(eager: str) -> None:
    with pytest.raises(UnknownProblemError, match="did you mean JaggedToPadded"):
        reward(eager, "JagedToPadded")
    with pytest.raises(CannotRunError, match="no device cuda:99"):
        reward(eager, PADDED, device="cuda:99")
    with pytest.raises(CannotRunError, match="no case 'nope'"):
        reward(eager, PADDED, device="cpu", cases=["nope"])
    with pytest.raises(CannotRunError, match="no baseline 'tvm'"):
        reward(eager, PADDED, device="cpu", baselines=["tvm"])


def test_random_state_and_output_stay_as_they_are(eager: str, capfd: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    reward(f"print('noise')\n{eager}", PADDED, **JUDGE)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_threads_may_ask_at_once(eager: str) -> None:
    sources = [eager, eager.replace("return ", "return 3 * "), "def", eager]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda source: reward(source, PADDED, **JUDGE), sources))
    assert [each.value for each in found] == [1.0, 0.0, 0.0, 1.0]
    assert [each.reason for each in found] == ["correct", "not_exact", "compile_error", "correct"]


@pytest.mark.slow
def test_a_judge_that_dies_is_told_apart_and_replaced(eager: str) -> None:
    assert reward("def", PADDED, **JUDGE).reason == "compile_error"
    for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for process in map(int, child.read_text().split()):
            if b"reward_worker" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGKILL)
    died = reward(eager, PADDED, **JUDGE)
    assert (died.value, died.reason, died.result) == (0.0, "not_judged", None)
    assert "ended with code -9" in died.message
    assert reward(eager, PADDED, **JUDGE).reason == "correct"


SCRIPT = """
import multiprocessing, sys
from dlrm_bench.interop.reward import reward
from dlrm_bench.submissions import baseline
from dlrm_bench.problems import load_problems

SOURCE = baseline("eager", load_problems().find(11)).source

def ask(source):
    return reward(source, 11, device="cpu", cases=["default"], baselines=["eager"])

if __name__ == "__main__":
    print(reward("def", 11, device="cpu", effort=None).reason)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print([each.reason for each in pool.map(ask, [SOURCE, SOURCE.replace("return ", "return 2 * ")])])
    print(reward("def", 11, device="cpu", effort=None).reason)
"""


@pytest.mark.slow
def test_processes_may_ask_at_once_and_none_is_left(root: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    # Children's own folders are in there too, so that whoever is left is known by where it works.
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["compile_error", "['correct', 'not_exact']", "compile_error"]
    assert not any(working_folder(process).startswith(str(tmp_path)) for process in Path("/proc").glob("[0-9]*"))


def working_folder(process: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(process / "cwd")
    return ""


# --- the taskset of `verifiers` ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_taskset_gives_prompts_and_scores_answers(problems: ProblemSet, eager: str) -> None:
    vf = pytest.importorskip("verifiers.v1")
    from dlrm_bench.interop.verifiers import KernelConfig, KernelTaskConfig, KernelTaskset

    judged = KernelTaskConfig(device="cpu", precision="fp32", effort=None)
    tasks = list(KernelTaskset(KernelConfig(problems="7,11", language="cuda", task=judged)))
    assert [(each.data.id, each.data.name) for each in tasks] == [("7", "DotInteraction"), ("11", "JaggedToPadded")]
    assert problems.find(PADDED).code in tasks[1].data.prompt
    assert "CUDA C++" in tasks[1].data.prompt

    def scored(answer: str) -> Any:
        task = vf.TraceTask(type="KernelTask", data=tasks[1].data, key=tasks[1].key, hash=tasks[1].hash)
        trace = vf.Trace(task=task, state=vf.State(), agent=vf.AgentInfo(config=vf.AgentConfig()))
        trace.root_reply = answer
        asyncio.run(tasks[1].score(trace))
        return trace

    right = scored(f"<think>Hm.</think>\n```python\n{eager}\n```")
    assert (right.reward, right.metrics) == (1.0, {"correct": 1.0, "speedup": 0.0})
    assert scored("I would rather not.").reward == 0.0
