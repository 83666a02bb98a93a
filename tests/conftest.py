"""What several tests share: the problems, one reference call, hand-made records, and the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import settings

from dlrm_bench.cli import run
from dlrm_bench.problems import Problem, ProblemSet, load_problems
from dlrm_bench.records import (
    SCHEMA,
    Comparison,
    Environment,
    Measurement,
    Outcome,
    Reason,
    Result,
    Roofline,
    RunRecord,
    Status,
    Verdict,
)

ROOT = Path(__file__).parent.parent
PROBLEMS = load_problems()

settings.register_profile("steady", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("steady")
# Tensors here are small: more threads only wait for each other, and on a busy machine for a long time.
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where attacks, honest variants and mutants run: cpu or cuda")
    parser.addoption("--record", type=Path, help="file that gets a line of JSON for each test")


def pytest_configure(config: pytest.Config) -> None:
    # Started in the background of a script, the tests and all that they start would be deaf to an interruption.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path: Path | None = config.getoption("--record")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))


class Recorder:
    """Writes down how each test ended."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            line = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2)}
            with self._path.open("a") as file:
                file.write(json.dumps({**line, **dict(report.user_properties)}) + "\n")


@pytest.fixture(scope="session")
def where(request: pytest.FixtureRequest) -> torch.device:
    """The device that the tests of the judge as a whole run on."""
    name: str = request.config.getoption("--device")
    return torch.device(name) if name == "cpu" else torch.device(name, 0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device"))


# --- problems ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def problems() -> ProblemSet:
    return PROBLEMS


@pytest.fixture(params=PROBLEMS, ids=lambda problem: problem.name)
def problem(request: pytest.FixtureRequest) -> Problem:
    return request.param


@pytest.fixture(
    params=[(problem, case) for problem in PROBLEMS for case in problem.cases],
    ids=lambda pair: f"{pair[0].name}-{pair[1]}",
)
def problem_case(request: pytest.FixtureRequest) -> tuple[Problem, str]:
    return request.param


@dataclass(frozen=True)
class Drawn:
    """A reference model with one set of inputs, which it has not seen yet."""

    model: torch.nn.Module
    inputs: list[Any]

    @torch.no_grad()
    def output(self) -> torch.Tensor:
        return self.model(*self.inputs)


def _draw(
    names: Mapping[str, Any], dtype: torch.dtype = torch.float32, model_seed: int = 0, input_seed: int = 1
) -> Drawn:
    torch.manual_seed(model_seed)
    model = names["Model"](*names["get_init_inputs"]()).to(dtype)
    torch.manual_seed(input_seed)
    plain = [each.to("cpu") for each in names["get_inputs"]()]
    return Drawn(model, [each.to(dtype) if each.is_floating_point() else each for each in plain])


@pytest.fixture(scope="session")
def draw() -> Callable[..., Drawn]:
    """Build the reference of a problem's namespace and draw inputs for it."""
    return _draw


# --- records -------------------------------------------------------------------------------------

ENVIRONMENT = Environment(
    device="Test GPU",
    driver="570.1",
    python="3.11.7",
    system="Linux x86_64",
    dlrm_bench="0.1.0",
    torch="2.13.0",
    cuda="13.0",
    triton="3.7.0",
    fbgemm="1.8.0",
    torchrec=None,
)
RUN = RunRecord(
    schema=1,
    submissions=["baseline:eager"],
    problems=["EmbeddingBagSum"],
    size="small",
    precision="fp32",
    baselines=["eager", "fbgemm"],
    effort="quick",
    device="cpu",
    environment=ENVIRONMENT,
    time="2026-01-01T00:00:00+00:00",
)


def _comparison(baseline: str, speedup: float, outcome: Outcome, own_us: float = 10.0) -> Comparison:
    return Comparison(
        baseline=baseline,
        status="correct",
        message=f"what {baseline} is",
        median_us=own_us * speedup,
        speedup=speedup,
        low=speedup * 0.99,
        high=speedup * 1.01,
        outcome=outcome,
        block_us=[own_us * speedup] * 4,
    )


def _result(
    problem_id: int = 1,
    submission: str = "kernel",
    status: Status = "correct",
    comparisons: list[Comparison] | None = None,
    **changes: Any,
) -> Result:
    problem = PROBLEMS.find(problem_id)
    reasons = [] if status == "correct" else [Reason("relative_l2", "off by a lot", "default", 0.5, 0.1)]
    measurement = None
    if comparisons is not None:
        measurement = Measurement(
            clock="cuda_events",
            case="default",
            cold=True,
            effort="quick",
            median_us=10.0,
            wall_us=11.0,
            host_us=15.0,
            noise=0.01,
            control=1.0,
            comparisons=comparisons,
            costs=None,
            roofline=Roofline(4e12, 8e14, 8.0, 0.8, 8e12),
            block_us=[10.0] * 4,
            calls_per_block=5,
        )
    result = Result(
        schema=SCHEMA,
        problem=problem.name,
        problem_id=problem.id,
        problem_hash=problem.hash,
        submission=submission,
        submission_hash="0" * 64,
        size="small",
        precision="fp32",
        status=status,
        correct=status == "correct",
        verdict=Verdict(status, status == "correct", reasons, [], 0.5),
        measurement=measurement,
        protections=[],
        environment=ENVIRONMENT,
        time="2026-01-01T00:00:00+00:00",
    )
    return msgspec.structs.replace(result, **changes)


@pytest.fixture(scope="session")
def make_comparison() -> Callable[..., Comparison]:
    """Make the comparison of a submission that takes 10 us with a baseline."""
    return _comparison


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Result]:
    """Make a result, timed only if comparisons are given."""
    return _result


@pytest.fixture(scope="session")
def run_record() -> RunRecord:
    return RUN


# --- the command line ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Called:
    """What a call of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """Run the command line in this process."""

    def call(*arguments: object) -> Called:
        code = run([str(each) for each in arguments])
        return Called(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def python() -> Callable[..., Called]:
    """Run Python in a process of its own, in the checkout unless another folder is given."""

    def call(*arguments: object, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Called:
        command = [sys.executable, *(str(each) for each in arguments)]
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        return Called(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def run_on_an_h200(root: Path) -> Callable[[str], set[str]]:
    """Return the parameters of a test that the record of an H200 has a line for: it ran, or did not apply there."""
    lines = (root / "reference_traces" / "h200" / "battery.jsonl").read_bytes().splitlines()
    tests = [msgspec.json.decode(line)["test"].split("::")[1] for line in lines]
    return lambda name: {test.split("[")[1].rstrip("]") for test in tests if test.startswith(f"{name}[")}


@pytest.fixture(scope="session")
def said_not_to_have_run(root: Path) -> set[str]:
    """Return the attacks and mutants that the page on correctness says have no run on an H200."""
    text = (root / "docs" / "correctness.md").read_text()
    sentence = text.partition("no run on record there:")[2].partition(".")[0]
    return set(re.findall(r"`(\w+)`", sentence))
