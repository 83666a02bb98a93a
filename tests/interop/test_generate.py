"""Answers are asked of a real server, through the real client, and nothing is lost or asked twice."""

from __future__ import annotations

import email.utils
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.errors import CannotRunError, MissingFileError, UsageError
from dlrm_bench.evaluate import Settings, evaluate
from dlrm_bench.interop.generate import SCHEMA, generate
from dlrm_bench.interop.prompts import known_hardware, measured_hardware, tell, write_prompt
from dlrm_bench.interop.samples import SampleFolder
from dlrm_bench.interop.server import Server, asked_wait_s, key_from_environment
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import LANGUAGES, Comparison, Generation, Plan, Precision, Reason, Result, Verdict
from dlrm_bench.submissions import Submission, open_submissions

pytest.importorskip("openai")
Start = Callable[..., Any]
KEY = "a-secret-key"
CODE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
ANSWER = f"Here.\n```python\n{CODE}```\n"
PLAN = Plan(SCHEMA, "tiny", "zero-shot", "triton", "bf16", 0.7, None, 1)


@pytest.fixture
def three(problems: ProblemSet) -> ProblemSet:
    return ProblemSet(problems[:3], "bundled")


def ask(server: Any, problems: ProblemSet, path: Path, plan: Plan = PLAN, **options: Any) -> list[Generation]:
    made: list[Generation] = []
    whom = Server(server.url, KEY, options.pop("concurrency", 4), options.pop("attempts", 4), first_wait_s=0.05)
    generate(problems, plan, whom, path, done=made.append, **options)
    return made


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_every_sample_has_its_code_its_prompt_and_its_answer(
    chat_server: Start, three: ProblemSet, tmp_path: Path
) -> None:
    server = chat_server(lambda number, body: ANSWER)
    made = ask(server, three, tmp_path, samples=2)
    assert len(made) == len(server.questions) == 6
    submissions = open_submissions([str(tmp_path)], three)
    assert [(each.problem.id, each.source) for each in submissions] == [(id, CODE) for id in (1, 1, 2, 2, 3, 3)]
    kept = SampleFolder(tmp_path).read(three[1], 1)
    assert kept in made
    assert kept is not None
    assert (kept.answer, kept.reasoning, kept.finish_reason, kept.attempts) == (ANSWER, "It doubles.", "stop", 1)
    assert (kept.prompt_tokens, kept.answer_tokens) == (11, 7)
    asked = [each["messages"] for each in server.questions]
    assert [msgspec.to_builtins(message) for message in kept.prompt] in asked


def test_what_is_asked_is_what_the_plan_says(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path / "a")
    ask(server, three, tmp_path / "b", msgspec.structs.replace(PLAN, temperature=None, most_tokens=99))
    first, last = server.questions[0], server.questions[-1]
    assert (first["model"], first["temperature"], "max_tokens" in first) == ("tiny", 0.7, False)
    assert ("temperature" in last, last["max_tokens"]) == (False, 99)


def test_the_key_is_sent_and_written_nowhere(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: "<500>" if number == 0 else ANSWER)
    ask(server, three, tmp_path)
    assert {each["authorization"] for each in server.headers} == {f"Bearer {KEY}"}
    assert files(tmp_path)
    for content in files(tmp_path).values():
        assert KEY.encode() not in content
        assert b"127.0.0.1" not in content
    assert KEY not in repr(Server(server.url, KEY))


def test_what_is_there_is_not_asked_again(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path)
    before = files(tmp_path)
    assert ask(server, three, tmp_path) == []
    assert files(tmp_path) == before
    assert [each.sample for each in ask(server, three, tmp_path, samples=2)] == [1, 1, 1]
    assert len(server.questions) == 6


def test_half_a_sample_is_asked_again(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path)
    (tmp_path / "level_1_problem_1_sample_0_generation.json").unlink()
    (tmp_path / "level_1_problem_2_sample_0_kernel.py").unlink()
    assert {each.problem_id for each in ask(server, three, tmp_path)} == {1, 2}


@pytest.mark.parametrize("failure", ["<429>", "<500>", "<broken>", "<no end>", "<garbage>"])
def test_a_failure_that_passes_is_asked_again(
    chat_server: Start, three: ProblemSet, tmp_path: Path, failure: str
) -> None:
    server = chat_server(lambda number, body: failure if number < 2 else ANSWER)
    made = ask(server, three, tmp_path, concurrency=1)
    assert [each.answer for each in made] == [ANSWER] * 3
    assert [each.attempts for each in made] == [3, 1, 1]


def test_a_rate_limit_holds_back_every_question(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> str:
        # The others are slow enough to end when the limit is known.
        time.sleep(0.0 if number == 0 else 0.1)
        return "<429>" if number == 0 else ANSWER

    server = chat_server(answer)
    ask(server, three, tmp_path, samples=2, concurrency=2)
    first, _, *others = server.times
    assert len(others) == 5
    assert min(others) - first > 0.29


def test_no_more_questions_are_open_than_were_allowed(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> str:
        time.sleep(0.05)
        return ANSWER

    server = chat_server(answer)
    ask(server, three, tmp_path, samples=4, concurrency=3)
    assert server.most_open == 3


@pytest.mark.parametrize(
    ("failure", "times", "message"),
    [
        ("<500>", 4, "the server says 500: .*oops.*, after 4 attempts"),
        ("<broken>", 4, "after 4 attempts"),
        ("<400>", 1, "the server says 400: .*prompt too long"),
        ("<later>", 1, "it wants to be asked again in 86400 s"),
    ],
)
def test_a_question_without_an_answer_costs_no_other_its_own(
    chat_server: Start, three: ProblemSet, tmp_path: Path, failure: str, times: int, message: str
) -> None:
    def answer(number: int, body: dict[str, Any]) -> str:
        return failure if three[1].code in body["messages"][0]["content"] else ANSWER

    server = chat_server(answer)
    with pytest.raises(CannotRunError, match=f"1 of 3 questions have no answer .TableBatched.*{message}"):
        ask(server, three, tmp_path)
    assert len(server.questions) == 2 + times
    server.answer = lambda number, body: ANSWER
    assert [each.problem_id for each in ask(server, three, tmp_path)] == [2]


def test_a_wrong_key_ends_it_at_once_and_is_not_repeated(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: "<401>")
    with pytest.raises(CannotRunError, match="the server says 401") as raised:
        ask(server, three, tmp_path, samples=5, concurrency=1)
    assert len(server.questions) == 1
    assert KEY not in str(raised.value)


def test_a_server_that_is_not_there_is_named_as_such(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: ANSWER)
    server.close()
    with pytest.raises(CannotRunError, match="Connection error"):
        ask(server, three, tmp_path, attempts=2)


def test_an_answer_without_code_is_a_sample_all_the_same(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    answers = ["I would rather not.", "half a pair: \ud83d", ANSWER]
    server = chat_server(lambda number, body: answers[number])
    made = ask(server, three, tmp_path, concurrency=1)
    assert [each.defines_model for each in made] == [False, False, True]
    assert [each.source for each in open_submissions([str(tmp_path)], three)] == ["", "", CODE]
    assert made[1].answer == "half a pair: ?"


@pytest.mark.parametrize(("field", "value"), [("model", "other"), ("temperature", 0.0), ("language", "cuda")])
def test_a_folder_holds_answers_to_one_plan(
    chat_server: Start, three: ProblemSet, tmp_path: Path, field: str, value: Any
) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path)
    before = files(tmp_path)
    with pytest.raises(UsageError, match=f"holds answers with {field} .*, not {value}"):
        ask(server, three, tmp_path, msgspec.structs.replace(PLAN, **{field: value}))
    assert files(tmp_path) == before


def test_answers_to_another_version_of_a_problem_are_not_taken(
    chat_server: Start, three: ProblemSet, tmp_path: Path
) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path)
    changed = ProblemSet((Problem(1, three[0].name, three[0].code + "\n"),), "bundled")
    with pytest.raises(UsageError, match="is for another version of EmbeddingBagSum"):
        ask(server, changed, tmp_path)


def test_a_record_that_is_damaged_is_named(chat_server: Start, three: ProblemSet, tmp_path: Path) -> None:
    server = chat_server(lambda number, body: ANSWER)
    ask(server, three, tmp_path)
    (tmp_path / "level_1_problem_2_sample_0_generation.json").write_text("{")
    with pytest.raises(MissingFileError, match=r"cannot read .*problem_2_sample_0_generation.json.*remove it"):
        ask(server, three, tmp_path)


def test_a_wait_is_asked_for_in_seconds_or_by_a_date() -> None:
    assert [asked_wait_s({"retry-after": each}) for each in ("7", "0.5", "-1", "nan")] == [7, 0.5, 0, 0]
    assert asked_wait_s({"retry-after": email.utils.formatdate(time.time() + 60)}) == pytest.approx(60, abs=2)
    assert asked_wait_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert [asked_wait_s(each) for each in ({}, {"retry-after": "soon"})] == [None, None]


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one")
    monkeypatch.setenv("OTHER_KEY", "two")
    assert (key_from_environment(None), key_from_environment("OTHER_KEY")) == ("one", "two")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert key_from_environment(None) == "none"
    with pytest.raises(UsageError, match="NO_KEY is not set"):
        key_from_environment("NO_KEY")


# --- prompts -------------------------------------------------------------------------------------


def text_of(problem: Problem, last: tuple[str, Result] | None = None, **changes: Any) -> str:
    [message] = write_prompt(problem, msgspec.structs.replace(PLAN, **changes), last)
    assert "$" not in message.content
    return message.content


def test_a_prompt_has_the_problem_and_what_is_judged(problem: Problem) -> None:
    text = text_of(problem)
    assert problem.code in text
    assert problem.card is not None
    assert all(case.about in text for case in problem.card.cases)
    assert ("reads the weights anew" in text) == (not problem.card.caches_weights)
    assert "floating-point inputs are bfloat16" in text
    assert "floating-point inputs are float32" in text_of(problem, precision="fp32")


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_is_for_another_problem(problems: ProblemSet, language: str) -> None:
    text = text_of(problems[0], template="example", language=language)
    assert "gated_square" in text
    assert ("triton.jit" in text, "load_inline(" in text) == (language == "triton", language == "cuda")
    assert all("gated_square" not in problem.code for problem in problems)


def test_the_hardware_is_described(problems: ProblemSet) -> None:
    h200 = known_hardware()["h200"]
    text = text_of(problems[0], template="hardware", hardware=h200)
    assert "NVIDIA H200 SXM, 132 multiprocessors, 141 GB of memory at 4800 GB/s" in text
    assert "by its data sheet" in text
    assert "memory traffic bound" in text


def test_a_wrong_try_is_told_why(problems: ProblemSet, make_result: Callable[..., Result]) -> None:
    wrong = make_result(status="incorrect")
    text = text_of(problems[0], (CODE, wrong))
    assert CODE in text
    assert "It is not right (incorrect):\n- off by a lot" in text
    many = [Reason("not_exact", f"reason {number}") for number in range(9)]
    told = tell(msgspec.structs.replace(wrong, verdict=Verdict("incorrect", False, many, [], 0.1)))
    assert told.count("- reason") == 4


def test_a_right_try_is_told_its_time(
    problems: ProblemSet, make_result: Callable[..., Result], make_comparison: Callable[..., Comparison]
) -> None:
    right = make_result(comparisons=[make_comparison("eager", 2.5, "win"), make_comparison("fbgemm", 0.5, "loss")])
    text = text_of(problems[0], (CODE, right))
    assert "It is right, and takes 10.0 us." in text
    assert "2.50 times as fast as eager" in text
    assert "0.50 times as fast as fbgemm" in text
    assert "allow 8.0 us" in text
    assert "It is right. Make it faster." in text_of(problems[0], (CODE, make_result()))


def toy_reasons(root: Path, language: str, device: str, precision: Precision) -> list[Reason]:
    folder = root / "dlrm_bench" / "interop" / "templates"
    small = (folder / "toy_problem.py").read_text().replace("65_536", "6").replace("768", "37")
    submission = Submission("toy", Problem(1, "Toy", small), (folder / f"toy_{language}.py").read_text())
    return evaluate(submission, Settings(torch.device(device), "full", precision, effort=None)).verdict.reasons


@pytest.mark.slow
def test_the_triton_example_is_right(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert toy_reasons(root, "triton", "cpu", "fp32") == []


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_both_examples_are_right_on_a_gpu(root: Path, language: str, precision: Precision) -> None:
    if language == "cuda" and shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc")
    assert toy_reasons(root, language, "cuda:0", precision) == []


@pytest.mark.gpu
def test_a_gpu_that_is_here_is_measured() -> None:
    found = measured_hardware(torch.device("cuda:0"))
    assert found.measured
    assert found.name == torch.cuda.get_device_name(0)
    assert all(value > 0 for name, value in msgspec.structs.asdict(found).items() if name not in {"name", "measured"})
