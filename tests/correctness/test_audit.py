from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
import torch

from dlrm_bench.correctness.audit import AuditSettings, answer, audit, least_bytes, summarise
from dlrm_bench.correctness.trivial import TOLERANCES, examine
from dlrm_bench.problems import Problem, ProblemSet, load_problems
from dlrm_bench.records import Audit, AuditRequest, AuditRow, Case, Precision, ProblemCard, Trivial, TrivialOutcome
from dlrm_bench.runs import read_results

CPU = torch.device("cpu")
MIB = 1 << 20
PASSED_BY_ZEROS = load_problems(Path(__file__).parents[1] / "kernelbench" / "KernelBench")
TEXT = """
import os, sys, time
import torch

SHIFT = 0.0
SIZE = 64

class Model(torch.nn.Module):
    def forward(self, x):
        {body}

def get_inputs():
    return [torch.randn(SIZE, SIZE)]

def get_init_inputs():
    return []
"""


def written(body: str, card: ProblemCard | None = None) -> Problem:
    """Return a problem whose `forward(x)` has this body."""
    return Problem(1, "written", TEXT.format(body=body), card)


def found(row: AuditRow) -> dict[Trivial, TrivialOutcome]:
    assert row.skipped is None
    return {outcome.output: outcome for outcome in row.outcomes}


def asked(problem: Problem, memory_bytes: int = 1 << 30) -> AuditRequest:
    return AuditRequest(problem.id, problem.name, problem.code, problem.card, "full", "fp32", "cpu", memory_bytes)


def settings(seconds: float, memory_bytes: int = 1 << 30) -> AuditSettings:
    return AuditSettings(CPU, "full", "fp32", memory_bytes, seconds)


# --- the two checks ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PASSED_BY_ZEROS, ids=lambda problem: problem.name)
def test_zeros_pass_allclose_where_outputs_are_small_and_never_the_judge(problem: Problem) -> None:
    row = examine(problem, "full", "bf16", CPU)
    zeros = found(row)["zeros"]
    assert row.reference_right
    assert (zeros.allclose, zeros.judge, zeros.close_share) == (True, False, 1.0)
    assert not any(outcome.judge for outcome in row.outcomes)


def test_allclose_is_called_with_kernelbenchs_tolerances() -> None:
    """Half a tolerance off passes and two tolerances do not, in each precision."""
    for precision, tolerance in TOLERANCES.items():
        near = found(examine(written(f"return x * 0 + {tolerance / 2}"), "full", precision, CPU))["zeros"]
        far = found(examine(written(f"return x * 0 + {tolerance * 2}"), "full", precision, CPU))["zeros"]
        assert (near.allclose, far.allclose) == (True, False)


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("return x * 0", "zeros"),
        ("return x * 0 + 3", "mean"),
        ("return x * 0 + 3", "stale"),
        ("return x * 1", "input"),
        ("return (x * 0).long() + 3", "mean"),
        ("return (x * 0).sum() + 3", "mean"),
    ],
)
def test_what_is_the_right_answer_passes_both(body: str, output: Trivial) -> None:
    outcome = found(examine(written(body), "full", "fp32", CPU))[output]
    assert (outcome.allclose, outcome.judge, outcome.close_share, outcome.reason) == (True, True, 1.0, None)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("body", ["return x * 2 + 1", "return x.sum()", "return x.argmax(1)", "return x > 0"])
def test_what_is_not_passes_neither(body: str, precision: Precision) -> None:
    row = examine(written(body), "full", precision, CPU)
    assert row.reference_right
    for outcome in row.outcomes:
        assert not outcome.allclose
        assert not outcome.judge
        assert outcome.reason is not None


@pytest.mark.parametrize("wanted", ["DotInteraction", "KeyedJaggedPermute"])
def test_nothing_passes_a_bundled_problem(problems: ProblemSet, wanted: str) -> None:
    row = examine(problems.find(wanted), "small", "bf16", CPU)
    assert row.reference_right
    assert not any(outcome.allclose or outcome.judge for outcome in row.outcomes)


def test_an_output_that_no_trivial_one_fits_is_left_out(problems: ProblemSet) -> None:
    """A ragged output has another shape for other inputs, and so has a matrix that was reduced."""
    assert "stale" not in found(examine(problems.find("KeyedJaggedPermute"), "small", "bf16", CPU))
    assert set(found(examine(written("return x.sum(1)"), "full", "fp32", CPU))) == {"zeros", "mean", "stale"}


def test_a_small_problem_is_judged_on_every_case(problems: ProblemSet) -> None:
    card = problems.find(1).card
    assert card is not None
    shifted = [Case("same", "", {}), Case("shifted", "", {"SHIFT": 1.0}), Case("larger", "", {"SHIFT": 2.0})]
    card = msgspec.structs.replace(card, small={}, cases=shifted, bags=None, tables=None)
    problem = written("return x + SHIFT", card)
    small, full = (found(examine(problem, size, "fp32", CPU))["input"] for size in ("small", "full"))
    assert (full.allclose, full.judge) == (True, True)
    assert (small.allclose, small.judge) == (True, False)
    assert small.reason is not None
    assert small.reason.case == "shifted"


def test_an_output_of_another_shape_on_a_case_is_refused(problems: ProblemSet) -> None:
    card = problems.find(1).card
    assert card is not None
    card = msgspec.structs.replace(card, small={}, cases=[Case("wider", "", {"SHIFT": 1.0})], bags=None, tables=None)
    problem = written("return torch.cat([x, x]) if SHIFT else x * 1", card)
    outcome = found(examine(problem, "small", "fp32", CPU))["input"]
    assert (outcome.judge, outcome.reason and outcome.reason.reason) == (False, "wrong_shape")


def test_a_reference_that_fails_its_own_check_is_said_to() -> None:
    row = examine(written("return (x * 0) / 0"), "full", "fp32", CPU)
    assert not row.reference_right
    assert summarise([row], "fp32").reference_wrong == ["written"]


def test_an_audit_says_the_same_every_time() -> None:
    problem = written("return x.cumsum(1)")
    assert examine(problem, "full", "bf16", CPU) == examine(problem, "full", "bf16", CPU)


# --- one problem within its limits ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return x, x", "TypeError: forward returns tuple; only one tensor can be judged"),
        ("return None", "TypeError: forward returns NoneType; only one tensor can be judged"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise ValueError('first line\\nsecond line')", "ValueError: first line"),
        ("return +", "SyntaxError: invalid syntax"),
    ],
)
def test_a_problem_that_cannot_run_is_skipped_with_the_reason(body: str, said: str) -> None:
    row = answer(asked(written(body)))
    assert row.skipped is not None
    assert row.skipped.startswith(said)
    assert (row.problem, row.outcomes) == ("written", [])


def test_what_is_too_large_is_skipped_before_it_is_made() -> None:
    problem = Problem(1, "large", TEXT.format(body="return x").replace("SIZE = 64", "SIZE = 1 << 20"))
    assert least_bytes(problem, "full", "fp32") == (4 + 8) << 40
    assert least_bytes(problem, "full", "bf16") == (2 + 8) << 40
    assert answer(asked(problem)).skipped == "it needs at least 1.23e+04 GiB, more than 1 GiB"


def test_what_cannot_be_estimated_counts_as_nothing() -> None:
    problem = Problem(
        1, "odd", TEXT.format(body="return x").replace("torch.randn(", "torch.tensor(3).item() * torch.randn(")
    )
    assert least_bytes(problem, "full", "fp32") == 0


# --- a process a problem -------------------------------------------------------------------------


def test_a_problem_that_takes_too_long_is_skipped() -> None:
    [row] = audit([written("time.sleep(600)")], settings(seconds=0.3))
    assert row.skipped == "it took longer than 0.3 s"


def test_nothing_to_audit_is_no_rows() -> None:
    assert list(audit([], settings(seconds=60))) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is limited on Linux only")
def test_a_crash_or_too_much_memory_ends_one_problem_only() -> None:
    bodies = [
        "print('said', file=sys.stderr, flush=True); os._exit(7)",
        "return x + torch.ones(1 << 28).sum()",
        "os.abort()",
        "print('not the answer'); return x * 1",
    ]
    crash, hungry, abort, fine = audit(list(map(written, bodies)), settings(seconds=120, memory_bytes=256 * MIB))
    assert crash.skipped == "its process ended with code 7: said"
    assert hungry.skipped == "it needs more than 0.25 GiB"
    assert abort.skipped is not None
    assert abort.skipped.startswith("its process ended with code -6")
    assert found(fine)["input"].judge


# --- the summary ---------------------------------------------------------------------------------


def test_the_summary_names_what_passes() -> None:
    rows = [
        AuditRow(
            1, "a", None, True, [TrivialOutcome("zeros", True, False, 1.0), TrivialOutcome("mean", True, True, 1.0)]
        ),
        AuditRow(2, "b", None, True, [TrivialOutcome("zeros", True, False, 1.0)]),
        AuditRow(3, "c", "it took longer than 1 s"),
    ]
    summary = summarise(rows, "bf16")
    assert (summary.audited, summary.skipped, summary.tolerance) == (2, 1, 1e-2)
    assert summary.allclose == {"zeros": ["a", "b"], "mean": ["a"], "input": [], "stale": []}
    assert summary.judge == {"zeros": [], "mean": ["a"], "input": [], "stale": []}
    assert summary.reference_wrong == []


def test_what_the_page_says_of_the_h200_is_in_the_records(root: Path) -> None:
    records = root / "reference_traces" / "h200"
    found = msgspec.json.decode((records / "audit.json").read_bytes(), type=Audit)
    names = [row.problem for row in found.rows]
    assert names == [problem.name for problem in PASSED_BY_ZEROS]
    assert all(found.summary.allclose[output] == names for output in ("zeros", "mean", "stale"))
    assert not any(found.summary.judge.values())
    parts = [
        msgspec.json.decode((records / f"audit_kernelbench_{part}.json").read_bytes(), type=Audit).rows
        for part in ("even", "odd", "large")
    ]
    smaller, large = [row for part in parts[:2] for row in part if row.skipped is None], parts[2]
    rows = smaller + large
    assert sorted(row.problem_id for row in rows) == list(range(1, 101))
    passed = Counter(each.output for row in rows for each in row.outcomes if each.allclose)
    text = " ".join((root / "docs" / "correctness.md").read_text().split())
    assert f"on an H200, {len(smaller)} with 60 GiB each" in text
    assert f"and {len(large)} with 125 GiB" in text
    assert all(row.reference_right for row in rows)
    assert (
        f"zeros pass on {passed['zeros']}, the mean on {passed['mean']}, the stale output on {passed['stale']} and an "
        f"input's copy on {passed['input']}" in text
    )
    assert not any(each.judge for row in rows for each in row.outcomes)
    evaluated = read_results(records / "kernelbench_references.jsonl")
    accepted = [each.problem_id for each in evaluated if each.correct]
    assert f"`eval` accepted all {len(accepted)} on a GPU" in text
    assert sorted(accepted) == list(range(1, 101))
    battery = Counter(
        (line["test"].split("::")[1].split("[")[0], line["outcome"])
        for line in map(msgspec.json.decode, (records / "battery.jsonl").read_bytes().splitlines())
    )
    mutants, honest, attacks = "test_a_mutant_is_rejected", "test_it_is_accepted", "test_it_does_not_get_through"
    said = (
        f"all {battery[mutants, 'passed']} mutants were rejected, all {battery[honest, 'passed']} honest variants "
        f"accepted, and {battery[attacks, 'passed']} of {battery[attacks, 'passed']} attacks"
    )
    assert battery[mutants, "failed"] == battery[honest, "failed"] == battery[attacks, "failed"] == 0
    assert said in " ".join((root / "docs" / "correctness.md").read_text().split())
