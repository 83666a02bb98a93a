"""Which problems can be passed by an output that computes nothing: under `torch.allclose`, and under this judge.

Every problem runs in a process of its own, `python -m dlrm_bench.correctness.audit`, which is asked on its stdin and
answers on its stdout. What it runs is trusted; the process is there to give memory back, and for references that crash
or hang.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from dlrm_bench.correctness.trivial import TOLERANCES, examine
from dlrm_bench.precisions import DTYPES
from dlrm_bench.problems import Problem
from dlrm_bench.records import TRIVIAL, AuditRequest, AuditRow, AuditSummary, Precision, Size
from dlrm_bench.sandbox.limits import is_out_of_memory, limit_memory

GIB = 1 << 30


@dataclass(frozen=True)
class AuditSettings:
    """How to audit.

    Attributes:
        device: where.
        size: which size of the problems.
        precision: dtype of weights and floating inputs.
        memory_bytes: what one problem may take, on a CPU beyond what torch itself takes.
        seconds: how long one problem may take.
    """

    device: torch.device
    size: Size
    precision: Precision
    memory_bytes: int
    seconds: float


def audit(problems: Sequence[Problem], settings: AuditSettings) -> Iterator[AuditRow]:
    """Audit problems one after another and yield each one's row as it ends.

    A problem that crashes, takes too long or too much memory, or cannot run at all is a row with the reason.
    """
    started = [_start()]
    try:
        for number, problem in enumerate(problems, start=1):
            child = started.pop()
            if number < len(problems):
                started.append(_start())  # it imports torch while the one before it works
            yield _ask(child, problem, settings)
    finally:
        for child in started:
            with child:
                child.kill()


def summarise(rows: Sequence[AuditRow], precision: Precision) -> AuditSummary:
    """Return the figures over all rows."""
    audited = [row for row in rows if row.skipped is None]
    outcomes = [(row.problem, outcome) for row in audited for outcome in row.outcomes]
    return AuditSummary(
        precision=precision,
        tolerance=TOLERANCES[precision],
        audited=len(audited),
        skipped=len(rows) - len(audited),
        allclose={kind: [name for name, each in outcomes if each.output == kind and each.allclose] for kind in TRIVIAL},
        judge={kind: [name for name, each in outcomes if each.output == kind and each.judge] for kind in TRIVIAL},
        reference_wrong=[row.problem for row in audited if not row.reference_right],
    )


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(part for part in (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")) if part)
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


def _ask(child: subprocess.Popen[bytes], problem: Problem, settings: AuditSettings) -> AuditRow:
    request = AuditRequest(
        problem_id=problem.id,
        problem=problem.name,
        code=problem.code,
        card=problem.card,
        size=settings.size,
        precision=settings.precision,
        device=str(settings.device),
        memory_bytes=settings.memory_bytes,
    )
    with child:
        try:
            row, said = child.communicate(msgspec.json.encode(request), timeout=settings.seconds)
        except subprocess.TimeoutExpired:
            return AuditRow(problem.id, problem.name, f"it took longer than {settings.seconds:g} s")
        finally:
            child.kill()
    if child.returncode:
        last_line = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return AuditRow(problem.id, problem.name, f"its process ended with code {child.returncode}: {last_line}")
    return msgspec.json.decode(row, type=AuditRow)


# --- in the child --------------------------------------------------------------------------------


def answer(request: AuditRequest) -> AuditRow:
    """Audit one problem in this process; whatever goes wrong is the row's reason for skipping it."""
    problem = Problem(request.problem_id, request.problem, request.code, request.card)
    device, allowed = torch.device(request.device), f"{request.memory_bytes / GIB:.3g} GiB"
    try:
        needed = least_bytes(problem, request.size, request.precision)
        if needed > request.memory_bytes:
            return AuditRow(problem.id, problem.name, f"it needs at least {needed / GIB:.3g} GiB, more than {allowed}")
        return examine(problem, request.size, request.precision, device)
    except Exception as error:
        said = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        if is_out_of_memory(error):
            said = f"it needs more than {allowed}"
        return AuditRow(problem.id, problem.name, said)


def least_bytes(problem: Problem, size: Size, precision: Precision) -> int:
    """Return how much memory an audit of a problem takes at least, without taking it.

    Weights and inputs are there in the precision and in float64. What the output and all between take is not known
    without a call; what cannot be built without numbers counts as nothing.
    """
    held: list[object] = []
    with contextlib.suppress(Exception), torch.device("meta"):
        names = problem.namespace(size)
        model = names["Model"](*names["get_init_inputs"]())
        held += [*model.parameters(), *model.buffers(), *names["get_inputs"]()]
    floating = [each for each in held if isinstance(each, torch.Tensor) and each.is_floating_point()]
    return sum(each.numel() for each in floating) * (DTYPES[precision].itemsize + torch.float64.itemsize)


def main() -> None:
    """Answer the request on stdin."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a reference prints must not get into the answer
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=AuditRequest)
    limit_memory(torch.device(request.device), request.memory_bytes)
    torch.backends.cudnn.allow_tf32 = False
    channel.write(msgspec.json.encode(answer(request)))
    channel.close()


if __name__ == "__main__":
    main()
