from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dlrm_bench
from dlrm_bench.cli import COMMANDS
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import Comparison, Environment, Finding, Result, RunRecord, Summary, Verdict
from dlrm_bench.runs import RunFolder

Call = Callable[..., Any]
ZEROS = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows, dim, weight_scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)

    def forward(self, indices, offsets):
        return self.weight.new_zeros(offsets.numel() - 1, self.weight.shape[1])
"""


NORMALIZE = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return {}
"""


@pytest.fixture
def results(make_result: Callable[..., Result], make_comparison: Callable[..., Comparison]) -> list[Result]:
    return [
        make_result(1, comparisons=[make_comparison("eager", 2.5, "win")]),
        make_result(7, "other", status="incorrect"),
    ]


@pytest.fixture
def run(tmp_path: Path, run_record: RunRecord, results: list[Result]) -> Path:
    folder = RunFolder(tmp_path / "run", run_record, resume=False)
    for result in results:
        folder.add(result)
    folder.close()
    return folder.path


# --- the command itself --------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command_and_the_exit_codes(cli: Call, flag: str) -> None:
    called = cli(flag)
    assert (called.code, called.err) == (0, "")
    assert all(f"\n  {name} " in called.out for name in COMMANDS)
    assert "Exit codes" in called.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own(cli: Call, command: str) -> None:
    called = cli(command, "-h")
    assert called.code == 0
    assert called.out.startswith(f"Usage: dlrm-bench {command} ")


def test_the_version_is_the_packages(python: Call) -> None:
    called = python("-m", "dlrm_bench", "--version")
    assert (called.code, called.out) == (0, f"dlrm-bench, version {dlrm_bench.__version__}\n")


@pytest.mark.parametrize(
    "arguments", [["list", "--json"], ["show", "1"], ["show", "1", "--json"], ["show", "1", "--code"], ["report", "."]]
)
def test_a_command_that_needs_no_tensor_imports_no_torch(
    python: Call, run: Path, root: Path, arguments: list[str]
) -> None:
    script = "import sys; from dlrm_bench.cli import run; print(run(sys.argv[1:]), 'torch' in sys.modules)"
    called = python("-c", script, *arguments, cwd=run, env={**os.environ, "PYTHONPATH": str(root)})
    assert called.out.splitlines()[-1] == "0 False"


# --- list and show -------------------------------------------------------------------------------


def test_list_shows_a_line_for_each_problem(cli: Call, problems: ProblemSet) -> None:
    called = cli("list")
    header, *lines = called.out.splitlines()
    assert called.code == 0
    assert header.split() == ["id", "name", "family", "bound", "title"]
    assert [line.split()[:2] for line in lines] == [[str(problem.id), problem.name] for problem in problems]


def test_list_gives_an_object_for_each_problem(cli: Call, problems: ProblemSet) -> None:
    entries = cli("list", "--json").json
    assert [(entry["id"], entry["name"]) for entry in entries] == [(problem.id, problem.name) for problem in problems]
    assert {tuple(entry) for entry in entries} == {("id", "name", "family", "bound", "title")}


def test_show_says_what_a_problem_computes_by_id_and_by_name(cli: Call, problem: Problem) -> None:
    called = cli("show", problem.id)
    assert called.code == 0
    assert called == cli("show", problem.name.lower())
    assert called.out.startswith(f"{problem.id} {problem.name}: ")
    assert all(f"  {name} " in called.out for name in (*problem.cases[1:], *problem.defaults))


def test_show_code_prints_the_file_and_nothing_else(cli: Call, problem: Problem) -> None:
    assert cli("show", problem.id, "--code").out == problem.code


def test_show_gives_the_card_and_the_constants_of_both_sizes(cli: Call, problem: Problem) -> None:
    shown = cli("show", problem.id, "--json").json
    assert (shown["id"], shown["name"], shown["hash"]) == (problem.id, problem.name, problem.hash)
    assert shown["constants"] == {"full": problem.constants("full"), "small": problem.constants("small")}
    assert [case["name"] for case in shown["cases"]] == list(problem.cases[1:])


def test_show_data_measures_drawn_inputs(cli: Call) -> None:
    shown = cli("show", 1, "--data", "--size", "small", "--case", "single_lookups", "--json").json
    assert shown["drawn"] == {"size": "small", "case": "single_lookups", "precision": "bf16", "seed": 0}
    assert (shown["index_statistics"]["bags"], shown["index_statistics"]["lookups"]) == (64, 64)
    assert shown["costs"]["flops"] == 64 * 32
    assert shown["costs"]["distinct_rows"] == shown["index_statistics"]["distinct_rows"] < 64


def test_show_data_prints_what_it_measured(cli: Call) -> None:
    out = cli("show", "DotInteraction", "--data", "--size", "small").out
    assert "compulsory_bytes" in out
    assert "index statistics" not in out


# --- report --------------------------------------------------------------------------------------


def test_report_prints_tables_and_where_results_were_made(cli: Call, run: Path) -> None:
    called = cli("report", run)
    assert (called.code, called.err) == (0, "")
    for part in ("Results", "1 EmbeddingBagSum", "2.50 win", "Summary", "best of these", "Test GPU; torch 2.13.0"):
        assert part in called.out


def test_report_writes_markdown(cli: Call, run: Path) -> None:
    out = cli("report", run, "--format", "md").out
    assert "| 1 EmbeddingBagSum | kernel | correct | 10.0 | 2.50 win | 80% |" in out
    assert "| other | 0 of 1 |" in out
    assert out.rstrip().splitlines()[-1].startswith("Test GPU; ")


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"]])
def test_report_gives_summaries_and_results(cli: Call, run: Path, results: list[Result], option: list[str]) -> None:
    given = cli("report", run, *option).json
    assert msgspec.convert(given["results"], list[Result]) == results
    assert [each.submission for each in msgspec.convert(given["summaries"], list[Summary])] == ["kernel", "other"]


def test_report_sums_up_several_runs_and_files_of_results(cli: Call, run: Path) -> None:
    given = cli("report", run, run / "results.jsonl", "--json").json
    assert [summary["evaluated"] for summary in given["summaries"]] == [2, 2]


# --- doctor --------------------------------------------------------------------------------------


def test_doctor_goes_on_past_a_library_that_does_not_import(python: Call) -> None:
    script = "import sys; sys.modules.update(fbgemm_gpu=None, torchrec=None); from dlrm_bench.cli import main; main()"
    called = python("-c", script, "doctor")
    assert (called.code, called.err) == (0, "")
    assert f"dlrm_bench   {dlrm_bench.__version__}\n" in called.out
    assert "\nMEND fbgemm-gpu: import of fbgemm_gpu halted" in called.out
    assert "\nok   GPU: " in called.out


def test_doctor_says_how_to_get_what_is_missing(python: Call, tmp_path: Path) -> None:
    nothing = {name: value for name, value in os.environ.items() if name != "CXX"} | {"PATH": str(tmp_path)}
    called = python("-m", "dlrm_bench", "doctor", "--json", env=nothing)
    findings = {each.about: each for each in msgspec.convert(called.json["findings"], list[Finding])}
    assert called.code == 0
    assert msgspec.convert(called.json["environment"], Environment).dlrm_bench == dlrm_bench.__version__
    assert not findings["C++ compiler"].fine
    assert "apt-get install" in findings["C++ compiler"].message
    assert findings["fbgemm-gpu"].fine


# --- check ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("submission", "code", "status"), [("baseline:eager", 0, "correct"), ("zeros.py", 1, "incorrect")]
)
def test_check_judges_a_submission(
    python: Call, root: Path, tmp_path: Path, submission: str, code: int, status: str
) -> None:
    (tmp_path / "zeros.py").write_text(ZEROS)
    arguments = ("check", 1, submission, "--json", "--device", "cpu", "--case", "default", "--case", "all_empty")
    called = python("-m", "dlrm_bench", *arguments, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)})
    verdict = msgspec.convert(called.json, Verdict)
    assert (called.code, verdict.status, verdict.correct) == (code, status, code == 0)
    assert {"status", "correct", "reasons", "metrics"} <= set(called.json)
    assert bool(verdict.reasons) == (code == 1)
    assert {each.case for each in verdict.metrics} == {"default", "all_empty"}
    assert [each.case for each in verdict.spent] == ["default", "all_empty"]
    assert 0 < sum(each.seconds for each in verdict.spent) <= verdict.seconds


@pytest.mark.slow
def test_check_says_where_the_time_went(python: Call) -> None:
    called = python("-m", "dlrm_bench", "check", 11, "baseline:eager", "--device", "cpu", "--case", "default")
    assert called.code == 0
    assert re.search(r"JaggedToPadded: correct \(3 trials in \d+\.\d s\)\n  default \d+\.\d s\n", called.out)


@pytest.mark.slow
@pytest.mark.parametrize(("submission", "code"), [("mine.py", 0), ("zeros.py", 1)])
def test_a_problem_of_kernelbench_is_judged_and_timed_by_itself(
    python: Call, root: Path, tmp_path: Path, submission: str, code: int
) -> None:
    (tmp_path / "mine.py").write_text(NORMALIZE.format("x / x.square().sum(1, keepdim=True).sqrt()"))
    (tmp_path / "zeros.py").write_text(NORMALIZE.format("torch.zeros_like(x)"))
    where = (f"kernelbench:{root / 'tests' / 'kernelbench'}:39", submission, "--json", "--device", "cpu")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    checked = python("-m", "dlrm_bench", "check", *where, cwd=tmp_path, env=environment)
    assert (checked.code, checked.json["correct"]) == (code, code == 0)
    timing = ("--effort", "quick", "--baseline", "eager")
    timed = python("-m", "dlrm_bench", "time", *where, *timing, cwd=tmp_path, env=environment)
    result = msgspec.convert(timed.json, Result)
    assert (timed.code, result.problem, result.size) == (code, "L2Norm__long_rows", "full")
    assert (result.measurement is not None) == (code == 0)


# --- failures ------------------------------------------------------------------------------------


FAILURES = [
    (["show", "EmbedingBagSum"], 2, "unknown_problem", "did you mean EmbeddingBagSum"),
    (["show", "99"], 2, "unknown_problem", "`dlrm-bench list` shows them all"),
    (["show", "1", "--data", "--case", "nope"], 2, "usage", "no case 'nope'; it has default, "),
    (["show"], 2, "usage", "Missing argument"),
    (["check", "7,8", "baseline:eager"], 2, "usage", "7,8 names 2 problems; name one by its id, as in 7"),
    (["check", "kernelbench:.:39", "mine.py"], 3, "missing_file", "no problems in level1; a folder's are files named"),
    (["eval", "baseline:eager", "--problems", "hf:.:7"], 3, "missing_file", "no data/level_1-*.parquet in ."),
    (["show", "1", "--speed"], 2, "usage", "No such option"),
    (["show", "1", "--size", "huge"], 2, "usage", "'huge' is not one of"),
    (["lst"], 2, "usage", "No such command 'lst'"),
    (["report", "nowhere"], 3, "missing_file", "cannot read nowhere: No such file"),
    (["report", "nowhere", "--format", "pdf"], 2, "usage", "'pdf' is not one of"),
    (["check", "1", "nowhere.py", "--device", "cpu"], 3, "missing_file", "cannot read nowhere.py"),
    (["check", "1", "baseline:tvm", "--device", "cpu"], 2, "usage", "no baseline 'tvm'"),
    (["check", "1", "baseline:eager", "--case", "nope"], 2, "usage", "no case 'nope'"),
    (["check", "1", "baseline:eager", "--device", "cuda:99"], 3, "no_device", "no device cuda:99"),
    (["time", "1", "baseline:eager", "--baseline", "tvm", "--device", "cpu"], 2, "usage", "no baseline tvm"),
    (["eval", "nowhere", "--device", "cpu"], 3, "missing_file", "cannot read nowhere"),
    (["eval", ".", "--device", "cpu"], 2, "bad_submission", "no submission in ."),
]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(("arguments", "code", "kind", "message"), FAILURES, ids=lambda each: str(each)[:60])
def test_a_failure_is_a_line_on_stderr(cli: Call, arguments: list[str], code: int, kind: str, message: str) -> None:
    called = cli(*arguments)
    assert (called.code, called.out) == (code, "")
    assert called.err.startswith("error: ")
    assert message in called.err


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(("arguments", "code", "kind", "message"), FAILURES, ids=lambda each: str(each)[:60])
def test_a_failure_is_a_document_on_stdout_where_json_was_asked_for(
    cli: Call, arguments: list[str], code: int, kind: str, message: str
) -> None:
    called = cli(*arguments, "--json")
    assert (called.code, called.err) == (code, "")
    assert called.json.keys() == {"error"}
    assert called.json["error"].keys() == {"kind", "message"}
    assert called.json["error"]["kind"] == kind
    assert message in called.json["error"]["message"]


def test_a_call_without_a_command_shows_the_commands(cli: Call) -> None:
    called = cli()
    assert called.code == 2
    assert "Commands" in called.out + called.err


HUGE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_init_inputs():
    return []


def get_inputs():
    return [torch.ones(1 << 44, dtype=torch.uint8)]
"""


@pytest.mark.slow
def test_a_problem_that_does_not_fit_this_machine_is_said_so(python: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Huge.py").write_text(HUGE)
    (tmp_path / "mine.py").write_text(HUGE.replace("class Model(", "class ModelNew("))
    place = f"kernelbench:{tmp_path}:1"
    called = python("-m", "dlrm_bench", "check", place, tmp_path / "mine.py", "--device", "cpu")
    assert (called.code, "do not fit" in called.out) == (1, True), called.out + called.err
