"""Submissions that try to be taken for right or fast without being so: none of them gets through.

Each file in submissions/ is one attack. Its docstring says what it does and which row of the taxonomy it stands for;
`EXPECT` says how it must end, and is read without importing the file.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import torch

from dlrm_bench.evaluate import Evaluator, Settings
from dlrm_bench.problems import ProblemSet
from dlrm_bench.records import ReasonKind, Result
from dlrm_bench.sandbox.limits import Limits
from dlrm_bench.submissions import Submission

FOLDER = Path(__file__).parent / "submissions"
SECONDS = 20.0
MEMORY_MIB = 2048
SLACK_SECONDS = {"cpu": 15.0, "cuda": 120.0}
"""What an evaluation may take beyond the limits of its submission: the start of its children, and killing one.

A child that opens a GPU takes ten seconds and more to come up where several do so at once, and one that is timed waits
for its control and its baseline too.
"""
STARTED_BY_ATTACKS = b"298.7654321"
TURNED_AWAY = {"time_not_explained", "wrong_while_timed", "input_changed"}
"""What may be said of one that gains nothing."""
NOTES = Path("/dev/shm/dlrm_bench_attack_notes")

TAXONOMY = {
    **{f"A{number}": "wrong output accepted" for number in range(1, 27)},
    **{f"B{number}": "state and caching" for number in range(1, 9)},
    **{f"C{number}": "timing" for number in range(1, 10)},
    **{f"D{number}": "tampering" for number in range(1, 9)},
}
NOT_APPLICABLE = {
    "A12": "a fault of a problem, not of a submission: the mutants and the audit look for it",
    "A22": "library calls are allowed: what a submission calls is not judged, what it returns and how fast is",
    "A23": "likewise: a kernel that falls back on torch is as right and as fast as torch is",
    "A24": "likewise: a kernel that does nothing costs its launch",
    "C8": "a kernel starts early only if the one before it lets it, and the flush is one of torch's that does not",
}


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an attack must end.

    Attributes:
        problem: id of the problem it is for.
        stage: where it must fail: when its outputs are checked, when it is timed, or nowhere, because it has no effect.
        reasons: what may be said first.
        gpu: whether it needs one.
        cpu: whether what it takes is bounded on a CPU alone.
        seconds: limit for each of its steps.
        memory_mib: memory it may take.
        least_us: time that a harmless one must be seen to take.
        most_speedup: speedup over eager that a harmless one may be credited with.
        printable: whether what is said must hold no control characters.
    """

    problem: int
    stage: Literal["check", "time", "harmless"]
    reasons: list[ReasonKind]
    gpu: bool
    cpu: bool = False
    seconds: float = SECONDS
    memory_mib: int = MEMORY_MIB
    least_us: float = 0.0
    most_speedup: float = float("inf")
    printable: bool = False


@dataclass(frozen=True)
class Attack:
    """One file in submissions/."""

    name: str
    source: str
    about: str
    expected: Expected

    @property
    def row(self) -> str:
        return self.about.split(":")[0]


def read(path: Path) -> Attack:
    source = path.read_text()
    tree = ast.parse(source)
    [expected] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXPECT"
    ]
    return Attack(path.stem, source, ast.get_docstring(tree) or "", msgspec.convert(expected, Expected))


ATTACKS = [read(path) for path in sorted(FOLDER.glob("*.py"))]


class Evaluators:
    """One evaluator for each way in which an attack is to be run."""

    def __init__(self, where: torch.device) -> None:
        self._where = where
        self._open: dict[tuple[object, ...], Evaluator] = {}

    def of(self, expected: Expected) -> Evaluator:
        timed = expected.stage == "time" or expected.least_us > 0 or expected.most_speedup < float("inf")
        device = self.device_of(expected)
        key = (device, timed, expected.seconds, expected.memory_mib)
        if key not in self._open:
            self._open[key] = Evaluator(
                Settings(
                    device,
                    "small",
                    "fp32",
                    effort="quick" if timed else None,
                    baselines=("eager",),
                    limits=Limits.within(expected.seconds, expected.memory_mib << 20),
                )
            )
        return self._open[key]

    def device_of(self, expected: Expected) -> torch.device:
        return torch.device("cuda", 0) if expected.gpu else self._where

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


@pytest.fixture(scope="module")
def running_before() -> set[int]:
    return workers()


@pytest.fixture(scope="module")
def evaluators(running_before: set[int], where: torch.device) -> Iterator[Evaluators]:
    opened = Evaluators(where)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, marks=[pytest.mark.gpu] if each.expected.gpu else [], id=each.name) for each in ATTACKS],
)
def test_it_does_not_get_through(
    attack: Attack, evaluators: Evaluators, problems: ProblemSet, record_property: Callable[[str, str], None]
) -> None:
    expected = attack.expected
    device = evaluators.device_of(expected)
    if expected.cpu and device.type != "cpu":
        pytest.skip("an attack on what is bounded on a CPU alone")
    start = time.monotonic()
    result = evaluators.of(expected).evaluate(Submission(attack.name, problems.find(expected.problem), attack.source))
    taken = time.monotonic() - start
    record_property("status", result.status)
    record_property("said", result.verdict.reasons[0].message if result.verdict.reasons else "")
    if expected.stage == "harmless":
        assert_no_gain(result, expected)
    else:
        assert result.status != "correct"
        first = result.verdict.reasons[0]
        assert first.reason in expected.reasons, first.message
        assert not expected.printable or first.message.isprintable()
    assert taken < expected.seconds + SLACK_SECONDS[device.type]


def assert_no_gain(result: Result, expected: Expected) -> None:
    if not result.correct:
        assert result.verdict.reasons[0].reason in TURNED_AWAY, result.verdict.reasons[0].message
        return
    if result.measurement is None:
        return
    assert result.measurement.median_us >= expected.least_us
    [eager] = result.measurement.comparisons
    assert eager.speedup is not None
    assert eager.speedup <= expected.most_speedup


def test_every_row_of_the_taxonomy_is_covered() -> None:
    covered = {attack.row for attack in ATTACKS}
    assert covered <= TAXONOMY.keys()
    assert covered | NOT_APPLICABLE.keys() == TAXONOMY.keys()
    assert not covered & NOT_APPLICABLE.keys()


def test_the_page_names_what_has_not_run_on_an_h200(
    run_on_an_h200: Callable[[str], set[str]], said_not_to_have_run: set[str]
) -> None:
    attacks = {attack.name for attack in ATTACKS}
    assert attacks - run_on_an_h200("test_it_does_not_get_through") == attacks & said_not_to_have_run


def test_every_file_says_what_it_is() -> None:
    groups = {"output", "state", "timing", "tampering"}
    assert {attack.name.split("_")[0] for attack in ATTACKS} == groups
    assert all(attack.about.endswith(".") for attack in ATTACKS)
    assert all((attack.expected.stage == "harmless") == (not attack.expected.reasons) for attack in ATTACKS)


def test_nothing_of_the_attacks_is_left(evaluators: Evaluators, running_before: set[int]) -> None:
    evaluators.close()
    assert workers() <= running_before
    left = [process for process, command in processes() if STARTED_BY_ATTACKS in command]
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert left == []


def test_no_notes_of_the_attacks_are_left(evaluators: Evaluators) -> None:
    evaluators.close()
    left = NOTES.exists()
    NOTES.unlink(missing_ok=True)
    assert not left


def workers() -> set[int]:
    """Processes that stand between this one's nursery and its children."""
    return {
        process
        for process, command in processes()
        if b"dlrm_bench.sandbox.nursery" in command and parent_of(parent_of(process)) == os.getpid()
    }


def processes() -> Iterator[tuple[int, bytes]]:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield int(line.parent.name), line.read_bytes()


def parent_of(process: int | None) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return None
