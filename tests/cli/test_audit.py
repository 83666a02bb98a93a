from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.correctness.audit import AuditSettings, audit
from dlrm_bench.problems import Problem
from dlrm_bench.records import Audit, AuditRow, TrivialOutcome
from dlrm_bench.report.text import audit_lines, audit_rows

Call = Callable[..., Any]


@pytest.fixture
def kernelbench(root: Path) -> str:
    return f"kernelbench:{root / 'tests' / 'kernelbench'}"


def test_json_is_one_document_and_what_passes_is_no_failure(cli: Call, kernelbench: str) -> None:
    called = cli("audit", f"{kernelbench}:37", "--precision", "bf16", "--device", "cpu", "--json")
    assert (called.code, called.err) == (0, "")
    found = msgspec.json.decode(called.out, type=Audit)
    assert [(row.problem_id, row.problem, row.skipped) for row in found.rows] == [(37, "FrobeniusNorm_", None)]
    assert (found.summary.precision, found.summary.audited) == ("bf16", 1)
    assert found.summary.allclose["zeros"] == ["FrobeniusNorm_"]
    assert not any(found.summary.judge.values())


@pytest.mark.slow
def test_the_table_has_a_row_a_problem_and_the_summary_follows(cli: Call) -> None:
    called = cli("audit", "DotInteraction", "--device", "cpu", "--timeout", "120", "--memory", "4")
    assert (called.code, called.err) == (0, "")
    assert "7 DotInteraction" in called.out
    assert "\naudited 1 in fp32, skipped 0\n" in called.out


def test_an_interruption_loses_nothing_that_is_done(
    cli: Call, kernelbench: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(problems: Sequence[Problem], settings: AuditSettings) -> Iterator[AuditRow]:
        yield from audit(problems[:1], settings)
        raise KeyboardInterrupt

    monkeypatch.setattr("dlrm_bench.correctness.audit.audit", impatient)
    called = cli("audit", f"{kernelbench}:37,39", "--precision", "bf16", "--device", "cpu", "--json")
    assert (called.code, called.err.strip()) == (130, "interrupted")
    assert [row.problem_id for row in msgspec.json.decode(called.out, type=Audit).rows] == [37]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["99"], 2, "no problem '99'"),
        (["1", "--level", "0"], 2, "--level"),
        (["1", "--memory", "0"], 2, "--memory"),
        (["1", "--precision", "fp8"], 2, "--precision"),
        (["kernelbench:/nowhere"], 3, "/nowhere/level1"),
        (["1", "--level", "9"], 3, "level9"),
        (["1", "--device", "mps"], 3, "mps"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Call, arguments: list[str], code: int, said: str) -> None:
    called = cli("audit", *arguments, "--json")
    assert called.code == code
    assert said in called.json["error"]["message"]


def test_kernelbenchs_problems_have_no_small_size(cli: Call, kernelbench: str) -> None:
    called = cli("audit", kernelbench, "--size", "small", "--device", "cpu")
    assert (called.code, "has no card" in called.err) == (2, True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_here_cannot_be_audited_on(cli: Call) -> None:
    assert cli("audit", "1", "--device", "cuda").code == 3


# --- the text ------------------------------------------------------------------------------------

ROWS = [
    AuditRow(1, "A", None, True, [TrivialOutcome("zeros", True, False, 1.0), TrivialOutcome("stale", True, True, 0.5)]),
    AuditRow(2, "B__", None, False, [TrivialOutcome("zeros", False, False, 0.25)]),
    AuditRow(3, "C", "it took longer than 1 s"),
]


def test_a_row_says_what_passes_each_check_and_how_near_the_nearest_came() -> None:
    header, rows = audit_rows(ROWS)
    assert header == ["problem", "note", "zeros", "mean", "input", "stale", "closest"]
    assert rows == [
        ["1 A", "", "PASS / no", "-", "-", "PASS / PASS", "100.00%"],
        ["2 B__", "the reference itself fails", "no / no", "-", "-", "-", "25.00%"],
        ["3 C", "skipped: it took longer than 1 s", "-", "-", "-", "-", "-"],
    ]


def test_the_summary_names_the_problems() -> None:
    from dlrm_bench.correctness.audit import summarise

    assert audit_lines(summarise(ROWS, "bf16")) == [
        "audited 2 in bf16, skipped 1",
        "torch.allclose at 0.01 passes zeros on 1 (A); mean on 0; input on 0; stale on 1 (A)",
        "this judge passes zeros on 0; mean on 0; input on 0; stale on 1 (A)",
        "the reference itself fails on B__",
    ]
