"""From nothing to a table over models: `generate` and `score` as a user calls them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.problems import ProblemSet
from dlrm_bench.records import Generation, Linking, ModelScore, Provenance, RunRecord, Trace, TraceRow
from dlrm_bench.runs import RunFolder, read_results

pytest.importorskip("openai")
Call = Callable[..., Any]
ON_A_CPU = ("--device", "cpu", "--effort", "none")
WAIT = "<wait>"


def right(code: str) -> str:
    return f"```python\n{code}\n\nclass ModelNew(Model):\n    pass\n```"


def wrong(code: str) -> str:
    return right(code.replace("return ", "return 2 * "))


@pytest.fixture
def chat_server(root: Path) -> Iterator[Call]:
    spec = importlib.util.spec_from_file_location("chat_server", root / "tests" / "interop" / "chat_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    started: list[Any] = []

    def start(answer: Callable[[int, str], str]) -> Any:
        started.append(module.ChatServer(lambda number, body: answer(number, body["messages"][0]["content"])))
        return started[-1]

    yield start
    for server in started:
        server.close()


def options(server: Any, output: Path, *others: object) -> tuple[object, ...]:
    return ("--model", "tiny", "--base-url", server.url, "--problems", "7,11", "-o", output, *others)


@pytest.mark.slow
def test_samples_become_a_table(cli: Call, chat_server: Call, problems: ProblemSet, tmp_path: Path) -> None:
    code = problems.find(11).code
    server = chat_server(lambda number, prompt: right(code) if number == 0 else "No.")
    called = cli("generate", *options(server, tmp_path / "a", "--problems", 11, "--samples", 2, "--concurrency", 1))
    assert (called.code, called.err) == (0, "")
    assert "2 new answers" in called.out
    assert "1 of them without a ModelNew" in called.out
    other = chat_server(lambda number, prompt: "No.")
    generated = cli("generate", *options(other, tmp_path / "b", "--json"))
    lines = [msgspec.json.decode(line, type=Generation) for line in generated.out.splitlines()]
    assert {each.problem_id for each in lines} == {7, 11}

    scored = cli("score", tmp_path / "a", tmp_path / "b", *ON_A_CPU)
    assert scored.code == 0
    assert scored.out.count("tiny") == 2
    assert "pass@2" in scored.out
    assert [len(read_results(tmp_path / name)) for name in ("a", "b")] == [2, 2]

    # A machine that cannot evaluate can score what has been.
    again = cli("score", tmp_path / "a", tmp_path / "b", "--device", "cuda:99", "--json")
    first, second = msgspec.convert(again.json, list[ModelScore])
    assert (first.correct.value, first.pass_at_k["2"].value, first.samples) == (0.5, 1.0, 2)
    assert (second.correct.value, second.problems_correct, second.samples) == (0.0, 0, 2)


@pytest.mark.slow
def test_feedback_goes_into_the_next_round(cli: Call, chat_server: Call, problems: ProblemSet, tmp_path: Path) -> None:
    code = problems.find(11).code
    server = chat_server(lambda number, prompt: right(code) if "It is not right" in prompt else wrong(code))
    arguments = options(server, tmp_path, "--problems", 11, "--rounds", 2, *ON_A_CPU)
    assert cli("generate", *arguments).code == 0
    before, after = (each["messages"][0]["content"] for each in server.questions)
    [first] = read_results(tmp_path / "round_1")
    assert (first.status, first.size, first.precision) == ("incorrect", "small", "fp32")
    assert "Your last try" not in before
    assert "inputs are float32" in before
    assert "return 2 * " in after
    assert first.verdict.reasons[0].message in after

    # The last round is left to `score`, which has a row for each.
    assert not (tmp_path / "round_2" / "results.jsonl").exists()
    scores = msgspec.convert(cli("score", tmp_path, *ON_A_CPU, "--json").json, list[ModelScore])
    assert [(each.model, each.correct.value) for each in scores] == [("tiny", 0.0), ("tiny, round 2", 1.0)]
    assert "0 new answers" in cli("generate", *arguments).out
    assert len(server.questions) == 2


def test_an_interruption_ends_it_at_once_and_loses_nothing(
    cli: Call, chat_server: Call, root: Path, tmp_path: Path
) -> None:
    server = chat_server(lambda number, prompt: "Done." if number == 0 else WAIT)
    command = ["-m", "dlrm_bench", "generate", *map(str, options(server, tmp_path / "a", "--concurrency", 2))]
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENAI_API_KEY": "a-secret-key"}
    process = subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.PIPE, cwd=tmp_path)
    while len(list((tmp_path / "a").glob("*sample*.json"))) < 1 or len(server.questions) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"interrupted: 1 answers more are in" in told
    assert b"Traceback" not in told
    server.answer = lambda number, body: "Done."
    before = len(server.questions)
    assert "1 new answers" in cli("generate", *options(server, tmp_path / "a")).out
    assert len(server.questions) == before + 1


def test_a_server_that_refuses_is_exit_code_3(cli: Call, chat_server: Call, tmp_path: Path) -> None:
    server = chat_server(lambda number, prompt: "<401>")
    called = cli("generate", *options(server, tmp_path / "a", "--json"))
    assert (called.code, called.json["error"]["kind"]) == (3, "cannot_run")
    assert "the server says 401" in called.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--api-key-env", "NO_SUCH_KEY"], 2, "the environment variable NO_SUCH_KEY is not set"),
        (["--hardware", "h200"], 2, "the prompt zero-shot does not describe a GPU"),
        (["--prompt", "hardware", "--hardware", "tpu"], 2, "no figures of a GPU 'tpu'; there are a100, h100, h200"),
        (["--prompt", "hardware", "--device", "cpu"], 3, "there is no GPU to take figures of"),
        (["--samples", "0"], 2, "0 is not in the range"),
        (["--base-url", "localhost:8000"], 2, "'localhost:8000' is no address of an API"),
    ],
)
def test_what_makes_no_sense_asks_nobody(
    cli: Call, chat_server: Call, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    server = chat_server(lambda number, prompt: "Done.")
    called = cli("generate", *options(server, tmp_path / "a", *arguments))
    assert (called.code, server.questions) == (code, [])
    assert message in called.err
    assert not (tmp_path / "a").exists()


def test_the_next_step_names_the_place_of_the_problems(
    cli: Call, chat_server: Call, root: Path, tmp_path: Path
) -> None:
    server = chat_server(lambda number, prompt: "Done.")
    place = f"kernelbench:{root / 'tests' / 'kernelbench'}"
    called = cli("generate", *options(server, tmp_path / "a", "--problems", f"{place}:39"))
    assert called.out.endswith(f"next: dlrm-bench score {tmp_path / 'a'} --problems {place}\n")
    assert len(server.questions) == 1


@pytest.fixture
def embedding_trace(tmp_path: Path) -> Path:
    """A step of 1000 us, 600 of them in the embedding bag that problem 1 stands for."""
    row = TraceRow(
        kernel="at::native::EmbeddingBag_updateOutputKernel_sum_mean",
        operator="aten::_embedding_bag",
        outer="aten::embedding_bag",
        part=None,
        shapes=[[1000, 64]],
        dtype="float",
        operation="embedding_forward",
        owner="aten",
        launches=1,
        step_us=[600.0],
        exclusive_us=600.0,
        shared_us=600.0,
    )
    trace = Trace(
        schema=1,
        workload="dlrm",
        mode="inference",
        precision="fp32",
        configuration={},
        provenance=Provenance("Test GPU", None, None, None, "0.1.0"),
        wall_us=[1000.0],
        profiled_wall_us=[1000.0],
        busy_us=[600.0],
        rules=1,
        linking=Linking(1.0, 0.0, 0.0),
        untimed=0,
        outside=0,
        with_stack=False,
        rows=[row],
    )
    (tmp_path / "dlrm.trace.json").write_bytes(msgspec.json.encode(trace))
    return tmp_path / "dlrm.trace.json"


def test_the_fastest_samples_are_projected_onto_a_trace(
    cli: Call, make_result: Call, make_comparison: Call, run_record: RunRecord, embedding_trace: Path, tmp_path: Path
) -> None:
    def write(name: str, **changes: Any) -> Path:
        folder = RunFolder(tmp_path / name, run_record, resume=False)
        for sample, speedup in enumerate((1.2, 3.0, 2.0)):
            comparisons = [make_comparison("eager", speedup, "win")]
            folder.add(make_result(1, f"sample_{sample}", comparisons=comparisons, **changes))
        folder.close()
        return folder.path

    run = write("run")
    [scored] = msgspec.convert(cli("score", run, "--trace", embedding_trace, "--json").json, list[ModelScore])
    assert scored.projection is not None
    matched = scored.projection.saving("matched")
    assert matched is not None
    assert matched.saved == pytest.approx(0.6 * (1 - 1 / 3))
    called = cli("score", run, "--trace", embedding_trace)
    assert "40.0% [" in called.out
    assert "projected onto dlrm on Test GPU" in called.out

    other = write("other", environment=msgspec.structs.replace(read_results(run)[0].environment, device="Other GPU"))
    assert cli("score", other, "--trace", embedding_trace).code == 2
    assert "note: results from Other GPU" in cli("score", other, "--trace", embedding_trace, "--force").out


@pytest.mark.parametrize(
    ("name", "code", "message"), [("nowhere", 3, "no folder"), ("empty", 2, "nothing to score in")]
)
def test_there_must_be_something_to_score(cli: Call, tmp_path: Path, name: str, code: int, message: str) -> None:
    (tmp_path / "empty").mkdir()
    called = cli("score", tmp_path / name, "--device", "cpu")
    assert (called.code, message in called.err) == (code, True)
