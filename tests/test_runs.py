from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from dlrm_bench.errors import MissingFileError, UsageError
from dlrm_bench.records import Result, RunRecord
from dlrm_bench.runs import RESULTS_FILE, RUN_FILE, RunFolder, read_results, read_run

MakeResult = Callable[..., Result]


@contextmanager
def running(path: Path, record: RunRecord, *, resume: bool = False) -> Iterator[RunFolder]:
    folder = RunFolder(path, record, resume)
    try:
        yield folder
    finally:
        folder.close()


@pytest.fixture
def results(make_result: MakeResult, make_comparison: Callable[..., object]) -> list[Result]:
    comparisons = [make_comparison("eager", 2.0, "win")]
    return [make_result(1, comparisons=comparisons), make_result(2, status="incorrect"), make_result(3)]


@pytest.fixture
def run(tmp_path: Path, run_record: RunRecord, results: list[Result]) -> Path:
    """A run folder with the first two results."""
    path = tmp_path / "some" / "run"
    with running(path, run_record) as folder:
        for result in results[:2]:
            folder.add(result)
    return path


# --- writing and reading back --------------------------------------------------------------------


def test_what_is_written_reads_back_equal(run: Path, run_record: RunRecord, results: list[Result]) -> None:
    assert read_run(run) == run_record
    assert read_results(run) == results[:2]
    assert read_results(run / RESULTS_FILE) == results[:2]


def test_a_result_is_on_disk_before_the_run_ends(tmp_path: Path, run_record: RunRecord, results: list[Result]) -> None:
    with running(tmp_path, run_record) as folder:
        for count, result in enumerate(results, start=1):
            folder.add(result)
            assert read_results(tmp_path) == results[:count]


@pytest.mark.parametrize("part", ["", RESULTS_FILE])
def test_reading_results_that_are_not_there_is_refused_with_the_path(tmp_path: Path, part: str) -> None:
    with pytest.raises(MissingFileError, match=f"cannot read {tmp_path / RESULTS_FILE}: No such file"):
        read_results(tmp_path / part)


@pytest.mark.parametrize("line", ["{}", '{"schema": 1}', "not json", "[1, 2]", "\x00"])
def test_a_foreign_line_is_refused_with_its_number(run: Path, line: str) -> None:
    with (run / RESULTS_FILE).open("a") as stream:
        stream.write(f"\n{line}\n")
    with pytest.raises(MissingFileError, match="line 4 is not a result"):
        read_results(run)


@pytest.mark.parametrize("content", [None, "{}", '{"schema": 1'], ids=["missing", "foreign", "torn"])
def test_a_folder_without_a_run_record_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / RUN_FILE).write_text(content)
    with pytest.raises(MissingFileError, match=f"{tmp_path} is no run folder"):
        read_run(tmp_path)


# --- resuming ------------------------------------------------------------------------------------


def test_a_folder_with_results_is_not_written_again(run: Path, run_record: RunRecord, results: list[Result]) -> None:
    with pytest.raises(UsageError, match="--resume"):
        RunFolder(run, run_record, resume=False)
    assert read_results(run) == results[:2]


def test_a_resumed_run_knows_what_is_done_and_adds_the_rest(
    run: Path, run_record: RunRecord, results: list[Result]
) -> None:
    with running(run, run_record, resume=True) as folder:
        assert folder.done() == {(each.submission + each.submission_hash, each.problem_hash) for each in results[:2]}
        folder.add(results[2])
    assert read_results(run) == results


def test_resuming_where_nothing_is_starts_anew(tmp_path: Path, run_record: RunRecord) -> None:
    with running(tmp_path / "new", run_record, resume=True) as folder:
        assert folder.done() == set()
    assert read_run(tmp_path / "new") == run_record


@pytest.mark.parametrize(
    ("setting", "value"),
    [("size", "full"), ("precision", "bf16"), ("baselines", ["eager"]), ("effort", None), ("device", "cuda")],
)
def test_a_run_is_not_resumed_with_another_setting(
    run: Path, run_record: RunRecord, setting: str, value: object
) -> None:
    other = msgspec.structs.replace(run_record, **{setting: value})
    with pytest.raises(UsageError, match=f"was run with {setting} ") as caught:
        RunFolder(run, other, resume=True)
    assert str(value) in str(caught.value)
    assert read_run(run) == run_record


def test_a_run_is_resumed_with_other_submissions_at_another_time(run: Path, run_record: RunRecord) -> None:
    other = msgspec.structs.replace(run_record, submissions=["mine"], problems=["DotInteraction"], time="later")
    with running(run, other, resume=True) as folder:
        assert len(folder.done()) == 2


# --- a kill in the middle ------------------------------------------------------------------------


@pytest.fixture(params=[1, 200], ids=["one byte", "200 bytes"])
def torn(run: Path, request: pytest.FixtureRequest) -> Path:
    """The run folder, its last line cut off."""
    file = run / RESULTS_FILE
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[: request.param])
    return run


def test_resuming_drops_a_torn_last_line(torn: Path, run_record: RunRecord, results: list[Result]) -> None:
    with running(torn, run_record, resume=True) as folder:
        assert len(folder.done()) == 1
        folder.add(results[1])
    assert read_results(torn) == results[:2]


def test_resuming_drops_a_torn_only_line(run: Path, run_record: RunRecord) -> None:
    (run / RESULTS_FILE).write_bytes(b'{"schema": 1, "prob')
    with running(run, run_record, resume=True) as folder:
        assert folder.done() == set()


def test_a_torn_last_line_does_not_hide_the_results_before_it(torn: Path, results: list[Result]) -> None:
    assert read_results(torn) == results[:1]


# --- where nothing can be written ----------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_refused_with_its_path(tmp_path: Path, run_record: RunRecord) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingFileError, match=f"cannot write the run folder {tmp_path / 'file' / 'run'}"):
        RunFolder(tmp_path / "file" / "run", run_record, resume=False)


def test_intervals_of_an_older_record_get_the_noise_that_they_were_without(
    tmp_path: Path, make_result: MakeResult, make_comparison: Callable[..., object]
) -> None:
    unknown = msgspec.structs.replace(make_comparison("fbgemm", 2.0, "win"), speedup=None, low=None, high=None)
    now = make_result(1, comparisons=[make_comparison("eager", 2.0, "win"), unknown])
    old = msgspec.structs.replace(now, schema=2)
    path = tmp_path / RESULTS_FILE
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in (old, now, make_result(2, "incorrect"))))
    first, second, wrong = read_results(path)
    assert second == now
    assert wrong.measurement is None
    assert first.schema == now.schema
    assert first.measurement is not None
    assert now.measurement is not None
    [before, _], [after, none] = now.measurement.comparisons, first.measurement.comparisons
    assert (after.low, after.high) == pytest.approx((before.low / 1.01, before.high * 1.01))
    assert (after.speedup, after.outcome) == (before.speedup, before.outcome)
    assert (none.low, none.high) == (None, None)
