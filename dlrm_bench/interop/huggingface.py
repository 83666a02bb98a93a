"""The problems, results and traces as a Hugging Face dataset: Parquet files and a card."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dlrm_bench.errors import MissingFileError
from dlrm_bench.interop import parquet
from dlrm_bench.interop.card import dataset_card
from dlrm_bench.interop.parquet import Columns, Row
from dlrm_bench.paths import traces_dir
from dlrm_bench.problems import Problem, load_problems
from dlrm_bench.problems.hub import CARD_COLUMN, COLUMNS
from dlrm_bench.records import Comparison, Result, SweepPoint, Trace, TraceRow
from dlrm_bench.runs import RESULTS_FILE, as_of_now, point_as_of_now
from dlrm_bench.submissions import BASELINES
from dlrm_bench.traces.load import load_trace
from dlrm_bench.traces.store import SUFFIX

PROBLEM_COLUMNS: Columns = {
    **dict(zip(COLUMNS, ("string", "int64", "string", "int64"), strict=True)),
    "hash": "string",
    "title": "string",
    "family": "string",
    "bound": "string",
    "library": "string",
    "summary": "string",
    "flops": "string",
    "operators": "string[]",
    "sources": "string[]",
    "cases": "string[]",
    CARD_COLUMN: "string",
}
RESULT_COLUMNS: Columns = {
    **dict.fromkeys(("file", "variant", "problem"), "string"),
    "problem_id": "int64",
    **dict.fromkeys(("problem_hash", "submission", "submission_hash", "size", "precision", "status"), "string"),
    "correct": "bool",
    **dict.fromkeys(("reason", "device", "torch", "time", "clock", "effort", "case"), "string"),
    "cold": "bool",
    **dict.fromkeys(("median_us", "noise", "floor_share"), "double"),
    **{
        f"{baseline}_{name}": "string" if name == "outcome" else "double"
        for baseline in BASELINES
        for name in ("us", "speedup", "low", "high", "outcome")
    },
    "record": "string",
}
TRACE_COLUMNS: Columns = {
    **dict.fromkeys(("workload", "mode", "precision", "gpu", "driver", "cuda", "torch"), "string"),
    **dict.fromkeys(("wall_us", "profiled_wall_us", "busy_us"), "double[]"),
    **dict.fromkeys(("kernel", "operator", "outer", "part"), "string"),
    "shapes": "int64[][]",
    **dict.fromkeys(("dtype", "operation", "owner"), "string"),
    "launches": "int64",
    "step_us": "double[]",
    "exclusive_us": "double",
    "shared_us": "double",
}


def files() -> dict[str, bytes]:
    """Return what `export hf` writes: contents by path within the folder, the same each time.

    Raises:
        MissingPackageError: pyarrow is not installed.
        MissingFileError: a reference result cannot be read.
        TraceError: a reference trace cannot be read.
    """
    problems = load_problems()
    devices = sorted(path for path in traces_dir().iterdir() if path.is_dir())
    results = {device.name: read for device in devices if (read := _read_results(device))}
    traces = {device.name: profiles for device in devices if (profiles := _read_traces(device))}
    rows = {
        "data/level_1": parquet.encode([_problem_row(each) for each in problems], PROBLEM_COLUMNS),
        **{
            f"results/{split}": parquet.encode([_result_row(*each) for each in read], RESULT_COLUMNS)
            for split, read in results.items()
        },
        **{
            f"traces/{split}": parquet.encode(
                [_trace_row(trace, row) for trace in profiles for row in trace.rows], TRACE_COLUMNS
            )
            for split, profiles in traces.items()
        },
    }
    contents = {f"{name}-00000-of-00001.parquet": content for name, content in rows.items()}
    tabled = {split: [point.result for file, point in read if file == RESULTS_FILE] for split, read in results.items()}
    return {"README.md": dataset_card(problems, tabled, traces, list(contents)).encode(), **contents}


def _problem_row(problem: Problem) -> Row:
    card = problem.card
    assert card is not None, "a bundled problem has a card"
    facts = {name: getattr(card, name) for name in PROBLEM_COLUMNS if hasattr(card, name)}
    return facts | {
        "code": problem.code,
        "level": problem.level,
        "name": f"{problem.id}_{problem.name}",
        "problem_id": problem.id,
        "hash": problem.hash,
        "summary": card.summary.strip(),
        "cases": [case.name for case in card.cases],
        CARD_COLUMN: _json(card),
    }


def _result_row(file: str, point: SweepPoint) -> Row:
    result, measurement = point.result, point.result.measurement
    row = {name: getattr(result, name) for name in RESULT_COLUMNS if hasattr(result, name)}
    row |= {
        "file": file,
        "variant": f"{point.constant} = {point.value}" if point.constant else None,
        "reason": result.verdict.reasons[0].message if result.verdict.reasons else None,
        "device": result.environment.device,
        "torch": result.environment.torch,
        "record": _json(result),
    }
    if measurement is not None:
        row |= {name: getattr(measurement, name) for name in RESULT_COLUMNS if hasattr(measurement, name)}
        row["floor_share"] = measurement.roofline.share if measurement.roofline else None
        row.update(entry for each in measurement.comparisons for entry in _comparison(each).items())
    return row


def _comparison(each: Comparison) -> Row:
    values = {"us": each.median_us} | {name: getattr(each, name) for name in ("speedup", "low", "high", "outcome")}
    return {f"{each.baseline}_{name}": value for name, value in values.items()}


def _trace_row(trace: Trace, row: TraceRow) -> Row:
    found: Row = {}
    for part in (trace.provenance, trace, row):
        found |= {name: getattr(part, name) for name in TRACE_COLUMNS if hasattr(part, name)}
    return found


def _read_results(device: Path) -> list[tuple[str, SweepPoint]]:
    """Read all results below a folder, each with its file; one outside a sweep has no constant.

    Records of other kinds that lie there too, such as those of benchmarks/, are left out.
    """
    found = []
    for file in sorted(filter(_has_results, device.rglob("*.jsonl"))):
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                found.append((file.relative_to(device).as_posix(), _point(line)))
            except msgspec.DecodeError as error:
                raise MissingFileError(f"{file}, line {number} is not a result: {error}") from error
    return found


def _has_results(file: Path) -> bool:
    if file.name == RESULTS_FILE:
        return True
    with file.open("rb") as lines:
        try:
            first = msgspec.json.decode(next(lines, b"null"))
        except msgspec.DecodeError:
            return False
    return isinstance(first, dict) and not {"verdict", "result"}.isdisjoint(first)


def _point(line: bytes) -> SweepPoint:
    content = msgspec.json.decode(line)
    if isinstance(content, dict) and "result" in content:
        return point_as_of_now(msgspec.convert(content, SweepPoint))
    return SweepPoint("", 0, as_of_now(msgspec.convert(content, Result)))


def _read_traces(device: Path) -> list[Trace]:
    return [load_trace(file) for file in sorted(device.rglob(f"*{SUFFIX}"))]


def _json(record: msgspec.Struct) -> str:
    return msgspec.json.encode(record).decode()
