"""Reduced traces on disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlrm_bench.errors import MissingFileError, TraceError, UsageError
from dlrm_bench.paths import traces_dir
from dlrm_bench.projection.replay import Replay, identity
from dlrm_bench.traces.classify import classify, name_agreement, rules
from dlrm_bench.traces.load import find_trace, load_trace, reference_results, reference_traces
from dlrm_bench.traces.store import check_index, decode_trace, encode_trace, refresh_index, write_index, write_trace
from dlrm_bench.traces.summary import summarise

Make = Callable[..., Path]
LARGEST_BYTES = 64 << 10
REFERENCES = sorted(traces_dir().glob("*/*.trace.json.gz"))


@pytest.fixture(scope="module")
def trace_text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the text of a reduced trace of one row and one launch."""
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}
    path = tmp_path_factory.mktemp("trace") / "k.json"
    path.write_text(json.dumps([event]))
    return gzip.decompress(encode_trace(load_trace(path)))


def test_what_was_written_is_read_back(recommender: Make, tmp_path: Path) -> None:
    trace = load_trace(recommender())
    write_trace(trace, tmp_path / "a.trace.json.gz")
    assert load_trace(tmp_path / "a.trace.json.gz") == trace


def test_the_bytes_are_the_same_for_the_same_trace(recommender: Make) -> None:
    first, second = (encode_trace(load_trace(recommender())) for _ in range(2))
    assert first == second
    assert first[4:8] == b"\0\0\0\0"


def test_an_unpacked_reduced_trace_is_read_too(recommender: Make, tmp_path: Path) -> None:
    trace = load_trace(recommender())
    plain = tmp_path / "plain.json"
    plain.write_bytes(gzip.decompress(encode_trace(trace)))
    assert load_trace(plain) == trace


def test_nothing_of_the_machine_is_kept(recommender: Make) -> None:
    text = gzip.decompress(encode_trace(load_trace(recommender())))
    assert b"secret-host" not in text
    assert b"/home" not in text


def test_no_file_is_overwritten_unless_forced(recommender: Make, tmp_path: Path) -> None:
    trace, path = load_trace(recommender()), tmp_path / "a.trace.json.gz"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists already; --force"):
        write_trace(trace, path)
    assert path.read_bytes() == b"mine"
    write_trace(trace, path, force=True)
    assert load_trace(path) == trace
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.trace.json.gz", "dlrm.json"]


def test_a_wrong_name_and_a_missing_folder_are_named(recommender: Make, tmp_path: Path) -> None:
    trace = load_trace(recommender())
    with pytest.raises(UsageError, match=r"must end in \.trace\.json\.gz"):
        write_trace(trace, tmp_path / "a.json")
    with pytest.raises(MissingFileError, match="no folder"):
        write_trace(trace, tmp_path / "none" / "a.trace.json.gz")


FORGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "unknown field": (lambda made: made.update(comment="hi"), "unknown field `comment`"),
    "missing field": (lambda made: made.pop("rows"), "missing required field `rows`"),
    "no rows": (lambda made: made.update(rows=[]), "no kernels or no steps"),
    "another number of steps": (lambda made: made["rows"][0]["step_us"].pop(), "not every row has 3 steps"),
    "negative wall": (lambda made: made.update(wall_us=[-1.0]), "a time is zero or negative"),
    "zero busy": (lambda made: made.update(busy_us=[0.0] * 3), "a time is zero or negative"),
    "row that is not there": (lambda made: made["launches"].update(row=[99] * 4), "a row that is not there"),
    "launches out of order": (lambda made: made["launches"]["host_us"].reverse(), "not in the order of the host"),
    "uneven columns": (lambda made: made["launches"]["row"].pop(), "different lengths"),
    "text for a time": (lambda made: made.update(busy_us="long"), "Expected `array`"),
    "another schema": (lambda made: made.update(schema=2), "schema 2"),
    "more alone than in all": (lambda made: made["rows"][0].update(exclusive_us=1e6), "longer alone than in all"),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_hand_edited_trace_is_refused_with_the_reason(recommender: Make, tmp_path: Path, how: str) -> None:
    made = msgspec.to_builtins(load_trace(recommender()))
    change, message = FORGED[how]
    change(made)
    path = tmp_path / "forged.json"
    path.write_bytes(msgspec.json.encode(made))
    with pytest.raises(TraceError, match=message):
        load_trace(path)


@given(st.data())
def test_any_edit_is_refused_or_leaves_a_trace_that_can_be_summed_up(
    tmp_path_factory: pytest.TempPathFactory, trace_text: bytes, data: st.DataObject
) -> None:
    made = msgspec.json.decode(trace_text)
    place, key = made, None
    while isinstance(place, (dict, list)) and place and (key is None or data.draw(st.booleans())):
        holder, key = place, data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        place = holder[key]
    holder[key] = data.draw(st.sampled_from([None, 0, -1, 1e300, -1e300, 2**70, "", "x", [], [[]], {}, True, 0.5]))
    path = tmp_path_factory.mktemp("edited") / "t.json"
    path.write_text(json.dumps(made))
    try:
        trace = load_trace(path)
    except TraceError:
        return
    summarise(trace)
    if trace.launches is not None:
        identity(trace, Replay(trace.launches))


def test_an_index_lists_the_traces_and_finds_a_changed_one(recommender: Make, tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    folder.mkdir()
    trace = load_trace(recommender())
    for name in ("b", "a"):
        write_trace(msgspec.structs.replace(trace, workload=name), folder / f"{name}.trace.json.gz")
    index = write_index(folder)
    assert [(each.file, each.workload) for each in index.traces] == [("a.trace.json.gz", "a"), ("b.trace.json.gz", "b")]
    assert check_index(folder) == [folder / "a.trace.json.gz", folder / "b.trace.json.gz"]
    write_trace(trace, folder / "a.trace.json.gz", force=True)
    with pytest.raises(TraceError, match="SHA-256 differs"):
        check_index(folder)
    (folder / "b.trace.json.gz").unlink()
    with pytest.raises(MissingFileError, match=r"b\.trace\.json\.gz"):
        check_index(folder)


def test_a_trace_is_found_by_path_or_by_the_name_of_a_reference() -> None:
    with pytest.raises(MissingFileError, match="no file nothing, and no reference trace of that name"):
        find_trace("nothing")
    with pytest.raises(MissingFileError, match="no reference results for NVIDIA Q1"):
        reference_results("NVIDIA Q1")
    assert reference_results("NVIDIA H200").parent.name == "h200"


def test_only_an_index_is_refreshed(recommender: Make, tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    folder.mkdir()
    trace, index = load_trace(recommender()), folder / "index.json"
    write_trace(trace, folder / "a.trace.json.gz")
    refresh_index(folder)
    assert not index.exists()
    index.write_text('{"mine": 1}')
    refresh_index(folder)
    assert index.read_text() == '{"mine": 1}'
    write_index(folder)
    write_trace(msgspec.structs.replace(trace, workload="b"), folder / "a.trace.json.gz", force=True)
    refresh_index(folder)
    assert check_index(folder) == [folder / "a.trace.json.gz"]


def test_a_reduced_trace_is_classified_anew_when_it_is_read(recommender: Make, tmp_path: Path) -> None:
    trace, path = load_trace(recommender()), tmp_path / "old.trace.json.gz"
    rows = [msgspec.structs.replace(row, operation="unknown", owner="unknown") for row in trace.rows]
    write_trace(msgspec.structs.replace(trace, rules=0, rows=rows), path)
    assert load_trace(path) == trace


def test_the_folder_of_a_gpus_reference_traces() -> None:
    assert reference_traces("NVIDIA H200") == sorted(each for each in REFERENCES if each.parent.name == "h200")
    with pytest.raises(MissingFileError, match="no reference results for NVIDIA Q1"):
        reference_traces("NVIDIA Q1")


def test_there_are_reference_traces_and_an_index_lists_them_all() -> None:
    assert REFERENCES
    for folder in {path.parent for path in REFERENCES}:
        assert check_index(folder) == [path for path in REFERENCES if path.parent == folder]


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.name.split(".")[0])
def test_a_reference_trace_is_small_and_classified_by_the_rules_of_today(path: Path) -> None:
    stored = decode_trace(gzip.decompress(path.read_bytes()), path)
    assert path.stat().st_size <= LARGEST_BYTES
    assert path.read_bytes() == encode_trace(stored)
    assert path.name == f"{stored.workload}.trace.json.gz"
    assert stored.wall_us
    assert stored.rules == rules().version
    for row in stored.rows:
        rule = classify(row.kernel, row.operator)
        assert (row.operation, row.owner) == (rule.operation, rule.owner), row.kernel


def test_no_kernel_of_the_reference_traces_is_of_unknown_kind() -> None:
    assert {row.kernel for path in REFERENCES for row in load_trace(path).rows if row.operation == "unknown"} == set()


def test_names_alone_agree_with_the_launching_operator(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for path in REFERENCES for row in load_trace(path).rows]
    found = name_agreement(rows)
    with capsys.disabled():
        print(
            f"\nby name alone: {found.agreement:.2%} of the {found.judged:.1%} of kernel time that an operator judges"
        )
        for kernel, operator, operation, us in found.disagreements[:5]:
            print(f"  {us:.0f} us of {operator} taken for {operation}: {kernel[:80]}")
    assert found.judged > 0.9
    assert found.agreement > 0.95
