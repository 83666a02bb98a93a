"""Every figure in the README's tables comes from a record in the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlrm_bench.problems import ProblemSet
from dlrm_bench.runs import read_results, read_sweep
from dlrm_bench.submissions import solution


@pytest.mark.parametrize("folder", ["cpu", "h200"])
def test_its_tables_are_what_report_prints(cli: Callable[..., Any], root: Path, folder: str) -> None:
    called = cli("report", root / "reference_traces" / folder / "results.jsonl", "--format", "md")
    assert called.out.strip() in (root / "README.md").read_text()


@pytest.mark.parametrize("which", ["fp16", "fp32", "warm", "cuda"])
def test_the_page_of_results_has_what_report_prints(cli: Callable[..., Any], root: Path, which: str) -> None:
    called = cli("report", root / "reference_traces" / "h200" / f"results_{which}.jsonl", "--format", "md")
    assert called.out.strip() in (root / "docs" / "results.md").read_text()


@pytest.mark.parametrize(
    ("sweep", "points"), [("1_skew", 7), ("2_skew", 7), ("4_skew", 7), ("1_batch", 5), ("2_batch", 4), ("4_batch", 5)]
)
def test_the_page_of_results_has_the_tables_of_sweeps(
    cli: Callable[..., Any], root: Path, sweep: str, points: int
) -> None:
    called = cli("report", root / "reference_traces" / "h200" / f"sweep_{sweep}.jsonl", "--format", "md")
    assert called.out.count("| correct |") == points
    assert called.out.strip() in (root / "docs" / "results.md").read_text()


def test_the_records_that_the_pages_show_are_of_the_kernels_as_they_are(root: Path, problems: ProblemSet) -> None:
    def parted(file: Path) -> set[str]:
        """Return the problems whose text, or whose solution's, has changed since the record was made."""
        results = [point.result for point in read_sweep(file)] if "sweep" in file.name else read_results(file)
        now = {problem.id: problem for problem in problems}
        return {
            each.problem
            for each in results
            if (each.problem_hash, each.submission_hash)
            != (now[each.problem_id].hash, solution(each.submission.partition(":")[2], now[each.problem_id]).hash)
        }

    records = root / "reference_traces" / "h200"
    shown = [*records.glob("results*.jsonl"), *records.glob("sweep_*.jsonl"), records / "quick.jsonl"]
    assert {name: those for name, those in ((file.name, parted(file)) for file in shown) if those} == {}
    assert "EmbeddingBagSum" in parted(records / "repeat_1.jsonl")


def test_the_page_of_results_has_the_widest_intervals_over_batches(root: Path) -> None:
    text = " ".join((root / "docs" / "results.md").read_text().split())
    ends = []
    for sweep, batch in (("1_batch", 8192), ("2_batch", 1024)):
        points = read_sweep(root / "reference_traces" / "h200" / f"sweep_{sweep}.jsonl")
        [comparison] = [
            each for point in points if point.value == batch for each in point.result.measurement.comparisons
        ]
        ends += [comparison.low, comparison.high]
    said = "{:.2f} to {:.2f} at a batch of 8192 of problem 1, and {:.2f} to {:.2f} at 1024 of problem 2"
    assert said.format(*ends) in text


def test_its_kernel_is_correct(cli: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text()
    source = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "mine.py").write_text(source)
    called = cli("check", 7, tmp_path / "mine.py", "--device", "cpu")
    assert (called.code, "correct" in called.out) == (0, True)


def test_the_page_of_attacks_is_made_of_their_files(python: Callable[..., Any], root: Path) -> None:
    called = python("-m", "benchmarks.attacks")
    assert called.code == 0, called.err
    page = (root / "docs" / "attacks.md").read_text()
    assert called.out.strip() == page.strip()
    count = len(list((root / "tests" / "attacks" / "submissions").glob("*.py")))
    assert page.count("\n| ") == count + 2 * 4
    assert f"has {count} submissions that try to get through" in (root / "README.md").read_text()


def test_what_the_docs_say_of_the_clock_is_in_the_records(python: Callable[..., Any], root: Path) -> None:
    records = root / "reference_traces" / "h200" / "clock.jsonl"
    called = python("-m", "benchmarks.check_clock", "table", records)
    assert called.code == 0, called.err
    assert called.out.strip() in (root / "docs" / "timing.md").read_text()


def test_what_the_docs_say_of_a_second_run_is_in_the_records(python: Callable[..., Any], root: Path) -> None:
    text = (root / "docs" / "timing.md").read_text()
    first, second = (root / "reference_traces" / "h200" / f"{name}.jsonl" for name in ("repeat_1", "repeat_2"))
    called = python("-m", "benchmarks.check_clock", "again", first, second)
    assert called.code == 0, called.err
    assert called.out.strip() in text
    ours = [root / "reference_traces" / "h200" / f"{name}.jsonl" for name in ("results", "quick")]
    assert python("-m", "benchmarks.check_clock", "again", *ours).out.strip().splitlines()[-1] + "\n" in text
    noises = [each.measurement.noise for each in read_results(ours[1]) if each.measurement is not None]
    assert f"with a noise of up to {max(noises):.0%}" in text
    nothing = python(
        "-m", "benchmarks.check_clock", "again", first, root / "reference_traces" / "cpu" / "results.jsonl"
    )
    assert (nothing.code, nothing.err) == (1, "Error: the two runs timed nothing in common\n")
    # As they were written, before intervals had the noise in them.
    first, second = (
        {each["problem_id"]: each["measurement"] for each in map(json.loads, file.read_text().splitlines())}
        for file in (first, second)
    )
    pairs = [
        pair
        for number, one in first.items()
        if second[number] is not None
        for pair in zip(one["comparisons"], second[number]["comparisons"], strict=True)
    ]
    apart = sum(max(each["low"] for each in pair) > min(each["high"] for each in pair) for pair in pairs)
    assert f"of the {len(pairs)} intervals as the bootstrap has them, {apart} have no number in common" in text


@pytest.mark.parametrize(
    ("files", "effort", "text"),
    [
        (["standard"], "standard", "At `standard` that was {0:.0f} to {1:.0f} s"),
        (["quick"], "quick", "at `quick` {0:.1f} to {1:.1f} s in bfloat16"),
        (["results_fp32"], "quick", "{0:.1f} to {1:.1f} s in float32"),
    ],
    ids=["standard", "quick", "float32"],
)
def test_timing_took_as_long_as_the_docs_say(root: Path, files: list[str], effort: str, text: str) -> None:
    seconds = []
    for each in (each for name in files for each in read_results(root / "reference_traces" / "h200" / f"{name}.jsonl")):
        assert each.measurement is not None
        assert (each.measurement.effort, len(each.measurement.comparisons)) == (effort, 3)
        assert each.measurement.seconds is not None
        seconds.append(each.measurement.seconds)
    assert text.format(min(seconds), max(seconds)) in " ".join((root / "docs" / "timing.md").read_text().split())


def test_kernels_keep_the_gpu_busy_for_as_long_as_the_docs_say(root: Path) -> None:
    shares = []
    for name in ("results", "results_fp16", "results_fp32", "results_warm"):
        for each in read_results(root / "reference_traces" / "h200" / f"{name}.jsonl"):
            assert each.measurement is not None
            assert each.measurement.second_clock is not None
            assert each.measurement.second_clock.busy_us is not None
            shares.append(each.measurement.second_clock.busy_us / each.measurement.median_us)
    text = " ".join((root / "docs" / "timing.md").read_text().split())
    assert f"In the {len(shares)} records" in text
    assert f"it is {min(shares):.2f} to {max(shares):.2f} of the claim" in text


def test_what_it_says_of_a_whole_step_is_in_the_records(cli: Callable[..., Any], root: Path) -> None:
    records = root / "reference_traces" / "h200"
    splices = json.loads(
        cli("project", "--measured", records / "splice.jsonl", "--results", records / "standard.jsonl", "--json").out
    )
    [inference] = [each for each in splices if each["workload"] == "dlrm-inference-eager"]
    [replay] = [each["saved"] for each in inference["projected"] if each["method"] == "replay"]
    text = " ".join((root / "README.md").read_text().split())
    assert f"projects {replay:.1%} of the step's time saved" in text
    assert f"the step takes {inference['times']['saved']:.1%} less" in text
