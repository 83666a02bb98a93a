"""The export lies in a KernelBench-shaped checkout as the recipe says, and a harness of its kind runs it."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.errors import SubmissionError, UsageError
from dlrm_bench.interop import folder, kernelbench
from dlrm_bench.interop.kernelbench import LEVEL
from dlrm_bench.problems import ProblemSet, load_problems, open_problem, open_problems
from dlrm_bench.runs import read_results
from dlrm_bench.submissions import open_submissions, solution

HARNESS = Path(__file__).parent / "harness.py"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "new"
    folder.write(path, "kernelbench", kernelbench.files())
    return path


@pytest.fixture
def checkout(tmp_path: Path, root: Path, exported: Path) -> Path:
    """Return a checkout with problems and runs of its own, and the export laid over it."""
    path = Path(shutil.copytree(root / "tests" / "kernelbench", tmp_path / "checkout"))
    for level in (1, 2):
        (path / "KernelBench" / f"level{level}").mkdir(exist_ok=True)
        (path / "KernelBench" / f"level{level}" / "7_Theirs.py").write_text(f"LEVEL = {level}\n")
        for problem in (7, 9):
            write(path / "runs" / "theirs" / f"level_{level}_problem_{problem}_sample_0_kernel.py", f"# {level}\n")
    shutil.copytree(exported / "KernelBench", path / "KernelBench", dirs_exist_ok=True)
    shutil.copytree(exported / "runs", path / "runs", dirs_exist_ok=True)
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- problems ------------------------------------------------------------------------------------


def test_the_bundled_folder_is_a_base_path_of_kernelbench(root: Path, problems: ProblemSet) -> None:
    names = sorted(path.name for path in (root / "problems" / "level1").glob("*.py"))
    assert sorted(int(name.split("_")[0]) for name in names) == [problem.id for problem in problems]


def test_the_exported_level_is_the_bundled_problems_with_their_cards(checkout: Path, problems: ProblemSet) -> None:
    opened = load_problems(f"kernelbench:{checkout}", LEVEL)
    assert [problem.hash for problem in opened] == [problem.hash for problem in problems]
    assert [problem.card for problem in opened] == [problem.card for problem in problems]
    assert {problem.level for problem in opened} == {LEVEL}


@pytest.mark.parametrize("ending", ["level5", "KernelBench/level5", "level5/"])
def test_a_place_may_end_in_a_level(checkout: Path, ending: str) -> None:
    place = f"kernelbench:{checkout}/{ending}"
    assert list(load_problems(place)) == list(load_problems(f"kernelbench:{checkout}", LEVEL))
    assert [problem.id for problem in open_problems(f"{place}:7,DotInteraction,3")] == [7, 7, 3]
    assert open_problem(f"{place}:7").name == "DotInteraction"


def test_one_problem_of_several_must_be_named(checkout: Path) -> None:
    with pytest.raises(UsageError, match=rf"names 12 problems; name one by its id, as in .*{checkout.name}/level5:1"):
        open_problem(f"kernelbench:{checkout}/level5")
    with pytest.raises(UsageError, match=rf"names 2 problems; name one by its id, as in .*{checkout.name}/level5:7$"):
        open_problem(f"kernelbench:{checkout}/level5:7,9")


def test_the_checkouts_own_levels_stay(checkout: Path) -> None:
    assert [problem.code for problem in open_problems(f"kernelbench:{checkout}:7")] == ["LEVEL = 1\n"]
    assert [problem.code for problem in open_problems(f"kernelbench:{checkout}/level2")] == ["LEVEL = 2\n"]


# --- runs ----------------------------------------------------------------------------------------


def test_the_exported_runs_are_the_shipped_kernels(checkout: Path, problems: ProblemSet) -> None:
    opened = open_problems(f"kernelbench:{checkout}/level{LEVEL}")
    found = open_submissions([str(checkout / "runs" / "triton")], opened)
    assert {each.problem.id: each.source for each in found} == {
        problem.id: solution("triton", problem).source for problem in problems
    }


@pytest.mark.parametrize("level", [1, 2])
def test_runs_of_several_levels_are_told_apart(checkout: Path, level: int) -> None:
    opened = open_problems(f"kernelbench:{checkout}/level{level}:7")
    found = open_submissions([str(checkout / "runs" / "theirs")], opened)
    assert [(each.label, each.source) for each in found] == [
        (f"level_{level}_problem_7_sample_0_kernel", f"# {level}\n")
    ]


def test_runs_of_another_level_alone_are_refused_with_the_way_to_open_them(checkout: Path) -> None:
    with pytest.raises(SubmissionError, match="those of level 5 open with --problems kernelbench:CHECKOUT/level5"):
        open_submissions([str(checkout / "runs" / "eager")], load_problems())


# --- a harness -----------------------------------------------------------------------------------


@pytest.fixture
def harness(python: Callable[..., Any], root: Path) -> Callable[..., dict[str, dict[int, Any]]]:
    """Run the harness on a run of a checkout, and return what it said by precision and problem."""

    def call(checkout: Path, run: str) -> dict[str, dict[int, Any]]:
        environment = {**os.environ, "PYTHONPATH": str(root), "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
        called = python(HARNESS, checkout, LEVEL, run, "fp32", "bf16", env=environment)
        assert called.code == 0, called.err
        said: dict[str, dict[int, Any]] = {"fp32": {}, "bf16": {}}
        for line in map(msgspec.json.decode, called.out.splitlines()):
            said[line["precision"]][line["id"]] = line
        return said

    return call


def test_the_reference_passes_under_a_harness(checkout: Path, harness: Callable[..., Any]) -> None:
    for said in harness(checkout, "eager").values():
        assert {number: each["passed"] for number, each in said.items()} == dict.fromkeys(range(1, 13), True)


@pytest.mark.slow
def test_the_solutions_pass_under_a_harness_wherever_the_exact_result_does(
    checkout: Path, harness: Callable[..., Any]
) -> None:
    pytest.importorskip("triton")
    said = harness(checkout, "triton")
    failed = {
        precision: [number for number, each in found.items() if not each["passed"]] for precision, found in said.items()
    }
    assert failed["fp32"] == []
    assert not [number for number in failed["bf16"] if said["bf16"][number]["possible"]]
    assert len(failed["bf16"]) <= 3


# --- what its evaluator said ---------------------------------------------------------------------


@pytest.fixture
def record(root: Path) -> Path:
    return root / "reference_traces" / "h200" / "kernelbench.jsonl"


@pytest.fixture
def benchmark(python: Callable[..., Any], root: Path) -> Callable[..., Any]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return lambda *arguments: python(root / "benchmarks" / "kernelbench.py", *arguments, env=environment)


def test_the_page_has_what_the_record_says(benchmark: Callable[..., Any], record: Path, root: Path) -> None:
    called = benchmark("table", record)
    assert (called.code, called.err) == (0, "")
    assert called.out in (root / "docs" / "kernelbench.md").read_text()


def test_the_record_is_of_the_problems_and_solutions_as_they_are(record: Path, problems: ProblemSet) -> None:
    lines = [msgspec.json.decode(line) for line in record.read_bytes().splitlines()]
    assert Counter((line["problem_id"], line["precision"]) for line in lines if line["candidate"] != "reference") == {
        (problem.id, precision): 3 if (problem.id, precision) == (1, "fp32") else 1
        for problem in problems
        for precision in ("fp32", "bf16")
    }
    for line in lines:
        problem = problems.find(line["problem_id"])
        assert line["problem_hash"] == problem.hash
    for line in (each for each in lines if each["candidate"] == "triton"):
        assert line["candidate_hash"] == solution("triton", problems.find(line["problem_id"])).hash


def test_what_the_page_says_of_the_wrong_ones_is_in_the_records(record: Path, root: Path) -> None:
    lines = [msgspec.json.decode(line) for line in record.read_bytes().splitlines()]
    wrong = [line for line in lines if not line["said"]["correctness"]]
    assert {(line["problem_id"], line["precision"], line["candidate"]) for line in wrong} == {
        (number, "bf16", "triton") for number in (8, 9, 12)
    }
    errors = {}
    for result in read_results(root / "reference_traces" / "h200" / "results.jsonl"):
        if result.submission == "solution:triton" and result.problem_id in (8, 9, 12):
            trial = next(each for each in result.verdict.metrics if each.case == "default")
            errors[result.problem_id] = trial.metrics.relative_l2
            # A threshold is three times the reference's own error.
            assert trial.metrics.relative_l2 < trial.thresholds.relative_l2 / 3
    text = " ".join((root / "docs" / "kernelbench.md").read_text().split())
    assert f"finds them {errors[8]:.2%}, {errors[9]:.2%} and {errors[12]:.2%} away from the float64 result" in text
    flagged = Counter(line["candidate"] for line in lines if line["said"]["metadata"].get("excessive_speedup"))
    assert flagged == {"triton": 4, "counter": 1}


def test_another_evaluator_than_the_one_of_that_commit_is_refused(
    benchmark: Callable[..., Any], checkout: Path, tmp_path: Path
) -> None:
    write(checkout / "src" / "kernelbench" / "eval.py", "# of another day\n")
    called = benchmark("run", checkout, "-o", tmp_path / "out.jsonl")
    assert (called.code, called.out) == (1, "")
    assert f"eval.py is not KernelBench's of commit 423217d: git -C {checkout} checkout 423217d" in called.err
    assert not (tmp_path / "out.jsonl").exists()
