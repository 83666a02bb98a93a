from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.errors import MissingFileError, SubmissionError, UnknownProblemError, UsageError
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.submissions import BASELINES, Submission, baseline, open_one, open_submissions, solution

SOURCE = "class ModelNew: ...\n"


def write(path: Path, text: str = SOURCE) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def opened(found: list[Submission]) -> list[tuple[str, int]]:
    return [(each.label, each.problem.id) for each in found]


# --- baselines and solutions ---------------------------------------------------------------------


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_source_text_that_defines_model_new(problem: Problem, name: str) -> None:
    submission = baseline(name, problem)
    classes = [node.name for node in ast.parse(submission.source).body if isinstance(node, ast.ClassDef)]
    compile(submission.source, submission.label, "exec")
    assert "ModelNew" in classes
    assert submission.label == f"baseline:{name}"
    assert submission.about
    assert submission.hash == hashlib.sha256(submission.source.encode()).hexdigest()


def test_the_eager_baseline_computes_what_the_reference_does(problem: Problem, draw: Callable[..., Any]) -> None:
    names: dict[str, Any] = problem.namespace("small")
    expected = draw(names)
    exec(baseline("eager", problem).source.removeprefix(problem.code), names)
    torch.testing.assert_close(draw({**names, "Model": names["ModelNew"]}).output(), expected.output(), rtol=0, atol=0)


def test_an_unknown_baseline_is_refused_with_the_known_ones(problems: ProblemSet) -> None:
    with pytest.raises(UsageError, match="no baseline 'tvm'; there are eager, inductor, fbgemm"):
        baseline("tvm", problems.find(1))


@pytest.mark.parametrize("unserved", [Problem(1, "EmbeddingBagSum", SOURCE), Problem(99, "Foreign", SOURCE)])
def test_a_foreign_problem_has_no_library_baseline(unserved: Problem) -> None:
    assert baseline("eager", unserved).source.startswith(SOURCE)
    with pytest.raises(UsageError, match="has no library baseline"):
        baseline("fbgemm", unserved)


def test_an_unknown_solution_is_refused(problems: ProblemSet) -> None:
    with pytest.raises(UsageError, match="no solution 'cobol' for EmbeddingBagSum; there is triton"):
        solution("cobol", problems.find(1))
    with pytest.raises(UsageError, match="no solution 'triton' for Foreign; there is none"):
        solution("triton", Problem(99, "Foreign", SOURCE))


def test_a_solution_is_opened_for_the_problems_that_it_is_there_for(problems: ProblemSet) -> None:
    def opened(name: str, *ids: int) -> list[int]:
        return [each.problem.id for each in open_submissions([f"solution:{name}"], [problems.find(id) for id in ids])]

    assert opened("triton", *range(1, 13)) == list(range(1, 13))
    assert opened("cuda", *range(1, 13)) == [4, 5]
    with pytest.raises(UsageError, match="no solution 'cuda' for EmbeddingBagSum; there is triton"):
        opened("cuda", 1, 2)


# --- one file for a named problem ----------------------------------------------------------------


def test_any_file_opens_for_a_problem_that_is_named_beside_it(tmp_path: Path, problems: ProblemSet) -> None:
    submission = open_one(write(tmp_path / "mine.py"), problems.find(5))
    assert submission == Submission("mine", problems.find(5), SOURCE)


def test_a_baseline_opens_for_a_problem_that_is_named_beside_it(problems: ProblemSet) -> None:
    assert open_one("baseline:fbgemm", problems.find(5)) == baseline("fbgemm", problems.find(5))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00kernel"], ids=["missing", "binary"])
def test_a_file_that_cannot_be_read_as_text_is_refused_with_its_path(
    tmp_path: Path, problems: ProblemSet, content: bytes | None
) -> None:
    path = tmp_path / "1_EmbeddingBagSum.py"
    if content is not None:
        path.write_bytes(content)
    for open_it in (lambda: open_one(str(path), problems.find(1)), lambda: open_submissions([str(path)], problems)):
        with pytest.raises(MissingFileError, match=f"cannot read {path}: .+"):
            open_it()


def test_a_folder_is_no_submission_for_a_named_problem(tmp_path: Path, problems: ProblemSet) -> None:
    with pytest.raises(MissingFileError, match="Is a directory"):
        open_one(str(tmp_path), problems.find(1))


# --- files and folders ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem_id"),
    [
        ("7_DotInteraction.py", 7),
        ("DotInteraction.py", 7),
        ("dotinteraction.py", 7),
        ("7.py", 7),
        ("level_1_problem_3_sample_0_kernel.py", 3),
        ("level_1_problem_12_sample_7_kernel.py", 12),
    ],
)
def test_the_name_of_a_file_tells_its_problem(tmp_path: Path, problems: ProblemSet, name: str, problem_id: int) -> None:
    path = write(tmp_path / name)
    expected = [(Path(name).stem, problem_id)]
    assert opened(open_submissions([path], problems)) == expected
    assert opened(open_submissions([str(tmp_path)], problems)) == expected


@pytest.mark.parametrize(
    "name", ["my_kernel.py", "13_DotInteractions.py", "level_1_problem_40_sample_0_kernel.py", "1x_Foo.py"]
)
def test_a_file_whose_name_tells_no_problem_is_refused(tmp_path: Path, problems: ProblemSet, name: str) -> None:
    with pytest.raises(SubmissionError, match="cannot tell which problem"):
        open_submissions([write(tmp_path / name)], problems)


def test_a_kernelbench_file_of_another_level_is_refused(tmp_path: Path, problems: ProblemSet) -> None:
    with pytest.raises(SubmissionError, match="cannot tell which problem"):
        open_submissions([write(tmp_path / "level_2_problem_3_sample_0_kernel.py")], problems)


def test_a_folder_opens_with_its_subfolders_and_without_other_files(tmp_path: Path, problems: ProblemSet) -> None:
    for name in ("b/1_EmbeddingBagSum.py", "a/9_FactorizationMachine.py", "helpers.py", "2_notes.txt"):
        write(tmp_path / name)
    assert opened(open_submissions([str(tmp_path)], problems)) == [
        ("9_FactorizationMachine", 9),
        ("1_EmbeddingBagSum", 1),
    ]


def test_files_of_problems_that_were_not_asked_for_are_left_out(tmp_path: Path, problems: ProblemSet) -> None:
    for name in ("1_EmbeddingBagSum.py", "9_FactorizationMachine.py"):
        write(tmp_path / name)
    assert opened(open_submissions([str(tmp_path)], [problems.find(9)])) == [("9_FactorizationMachine", 9)]


def test_a_folder_without_submissions_is_refused_with_what_it_holds(tmp_path: Path, problems: ProblemSet) -> None:
    write(tmp_path / "helpers.py")
    with pytest.raises(SubmissionError, match=r"none of its 1 \.py files is named ID_Name\.py"):
        open_submissions([str(tmp_path)], problems)


def test_a_baseline_opens_for_every_problem_asked_for(problems: ProblemSet) -> None:
    assert open_submissions(["baseline:eager"], problems) == [baseline("eager", problem) for problem in problems]
    assert len(open_submissions(["baseline:eager", "baseline:fbgemm"], problems[:2])) == 4


# --- JSON Lines ----------------------------------------------------------------------------------


def test_each_line_of_json_is_a_submission(tmp_path: Path, problems: ProblemSet) -> None:
    lines = [{"problem": 7, "code": SOURCE, "sample": 3}, {"problem": "EmbeddingBagSum", "code": "other"}]
    path = write(tmp_path / "model.jsonl", "\n\n".join(msgspec.json.encode(line).decode() for line in lines))
    found = open_submissions([path], problems)
    assert opened(found) == [("model:sample_3", 7), ("model:sample_3", 1)]
    assert [each.source for each in found] == [SOURCE, "other"]


@pytest.mark.parametrize("bad", ['{"problem": 7, "co', '{"problem": 7}', '{"problem": 7, "code": 3}', "[]", "\x00"])
def test_a_line_that_is_no_submission_is_refused_with_its_number(
    tmp_path: Path, problems: ProblemSet, bad: str
) -> None:
    path = write(tmp_path / "model.jsonl", f'{{"problem": 7, "code": ""}}\n{bad}')
    with pytest.raises(SubmissionError, match=f"{path}, line 2: "):
        open_submissions([path], problems)


def test_a_line_for_an_unknown_problem_is_refused(tmp_path: Path, problems: ProblemSet) -> None:
    path = write(tmp_path / "model.jsonl", '{"problem": "DotInteractoin", "code": ""}')
    with pytest.raises(UnknownProblemError, match="did you mean DotInteraction"):
        open_submissions([path], problems)


def test_a_line_for_a_problem_that_was_not_asked_for_is_left_out(tmp_path: Path, problems: ProblemSet) -> None:
    path = write(tmp_path / "model.jsonl", '{"problem": 7, "code": ""}\n{"problem": 1, "code": ""}')
    asked = ProblemSet((problems.find(1),))
    assert [problem for _, problem in opened(open_submissions([path], asked))] == [1]


def test_a_missing_file_of_lines_is_refused(tmp_path: Path, problems: ProblemSet) -> None:
    with pytest.raises(MissingFileError, match="No such file"):
        open_submissions([str(tmp_path / "model.jsonl")], problems)
