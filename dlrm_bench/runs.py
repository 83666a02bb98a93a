"""A run on disk: `run.json`, what was asked, and `results.jsonl`, one line a result.

Every result is on disk before the next evaluation begins, so that a kill at any moment loses none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import msgspec

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.records import SCHEMA, Comparison, Result, RunRecord, SweepPoint

RUN_FILE = "run.json"
RESULTS_FILE = "results.jsonl"


class RunFolder:
    """Where a run is written."""

    def __init__(self, path: Path, record: RunRecord, resume: bool) -> None:
        """Make the folder, or open it again.

        Raises:
            UsageError: it holds results already and `resume` is off, or another run is resumed.
            MissingFileError: it cannot be written.
        """
        self.path = path
        self._results = path / RESULTS_FILE
        if self._results.exists() and not resume:
            raise UsageError(
                f"{path} holds results already; add --resume to do what is missing, or name another folder"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._check_same(record) if (path / RUN_FILE).exists() else self._write_record(record)
            self._stream: IO[bytes] = open(self._results, "ab")  # noqa: SIM115 - open as long as the run
        except OSError as error:
            raise MissingFileError(f"cannot write the run folder {path}: {error.strerror}") from error
        self._drop_torn_line()

    def done(self) -> set[tuple[str, str]]:
        """Return what has a result already: pairs of submission and problem hash."""
        return {(result.submission + result.submission_hash, result.problem_hash) for result in read_results(self.path)}

    def add(self, result: Result) -> None:
        """Append a result and have it on disk."""
        self._stream.write(msgspec.json.encode(result) + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Close the results file."""
        self._stream.close()

    def _write_record(self, record: RunRecord) -> None:
        (self.path / RUN_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    def _check_same(self, record: RunRecord) -> None:
        before = read_run(self.path)
        for name in ("size", "precision", "baselines", "effort", "device"):
            old, new = getattr(before, name), getattr(record, name)
            if old != new:
                raise UsageError(
                    f"{self.path} was run with {name} {old}, not {new}; resume with the same, or start anew"
                )

    def _drop_torn_line(self) -> None:
        # A kill in the middle of a write leaves a line without its end; everything before it is whole.
        written = self._results.read_bytes()
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            os.truncate(self._results, whole)


def read_run(path: Path) -> RunRecord:
    """Read `run.json` of a run folder.

    Raises:
        MissingFileError: there is none, or it is no run record.
    """
    try:
        return msgspec.json.decode((path / RUN_FILE).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise MissingFileError(f"{path} is no run folder: {RUN_FILE}: {error}") from error


def read_results(path: Path) -> list[Result]:
    """Read the results of a run folder, or a `results.jsonl` itself.

    Raises:
        MissingFileError: it does not exist, or a line is not a result.
    """
    file = path / RESULTS_FILE if path.is_dir() else path
    try:
        # What stands behind the last line's end is a line that a kill cut short.
        lines = file.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise MissingFileError(f"cannot read {file}: {error.strerror}") from error
    results = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            results.append(as_of_now(msgspec.json.decode(line, type=Result)))
        except msgspec.DecodeError as error:
            raise MissingFileError(f"{file}, line {number} is not a result: {error}") from error
    return results


def read_sweep(path: Path) -> list[SweepPoint]:
    """Read what `time --sweep --json` printed into a file; nothing if that is not what it holds."""
    try:
        points = [msgspec.json.decode(line, type=SweepPoint) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.DecodeError):
        return []
    return [point_as_of_now(point) for point in points]


def point_as_of_now(point: SweepPoint) -> SweepPoint:
    """Return a point of a sweep with its result as `as_of_now` has it."""
    return msgspec.structs.replace(point, result=as_of_now(point.result))


def as_of_now(result: Result) -> Result:
    """Return a record with its intervals as this release has them: older ones were without the noise."""
    measurement = result.measurement
    if measurement is None or result.schema >= SCHEMA:
        return result
    comparisons = [_with_noise(each, 1 + measurement.noise) for each in measurement.comparisons]
    return msgspec.structs.replace(
        result, schema=SCHEMA, measurement=msgspec.structs.replace(measurement, comparisons=comparisons)
    )


def _with_noise(each: Comparison, factor: float) -> Comparison:
    if each.low is None or each.high is None:
        return each
    return msgspec.structs.replace(each, low=each.low / factor, high=each.high * factor)
