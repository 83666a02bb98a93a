"""The exported dataset opens with `datasets`, and problems come back from it, from KernelBench's layout and the Hub."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.errors import DlrmBenchError, MissingFileError, UnknownProblemError, UsageError
from dlrm_bench.interop import folder, huggingface
from dlrm_bench.problems import CARDLESS_CASES, ProblemSet, load_problems, open_problem, open_problems
from dlrm_bench.records import Comparison, Result, SweepPoint
from dlrm_bench.runs import as_of_now

Call = Callable[..., Any]
datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()
PARQUET = "data/level_1-00000-of-00001.parquet"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "dataset"
    folder.write(path, "hf", huggingface.files())
    return path


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Open a folder with Hugging Face's library, with no network and a cache of its own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)

    def call(path: Path, *arguments: str) -> Any:
        return datasets.load_dataset(str(path), *arguments, cache_dir=str(tmp_path / "cache"))

    return call


# --- the dataset ---------------------------------------------------------------------------------


def test_the_problems_open_with_datasets(exported: Path, opened: Call, problems: ProblemSet) -> None:
    dataset = opened(exported)
    assert list(dataset) == ["level_1"]
    assert dataset["level_1"].column_names[:4] == ["code", "level", "name", "problem_id"]
    rows = list(dataset["level_1"])
    assert [(row["problem_id"], row["name"], row["level"]) for row in rows] == [
        (problem.id, f"{problem.id}_{problem.name}", 1) for problem in problems
    ]
    assert [row["code"] for row in rows] == [problem.code for problem in problems]
    assert [hashlib.sha256(row["code"].encode()).hexdigest() for row in rows] == [row["hash"] for row in rows]
    assert [["default", *row["cases"]] for row in rows] == [list(problem.cases) for problem in problems]


def test_the_results_open_with_datasets(exported: Path, opened: Call, root: Path) -> None:
    dataset = opened(exported, "results")
    for split in dataset:
        rows = list(dataset[split])
        lines = [
            json.loads(line)
            for file in sorted((root / "reference_traces" / split).rglob("*.jsonl"))
            if file.stem.startswith(("results", "repeat", "standard", "quick", "sweep", "kernelbench_references"))
            for line in file.read_bytes().splitlines()
        ]
        # A point of a sweep has its result inside.
        assert [row["record"] for row in rows] == [
            msgspec.json.encode(as_of_now(msgspec.convert(line.get("result", line), Result))).decode() for line in lines
        ]
        for row in rows:
            record = msgspec.json.decode(row["record"], type=Result)
            assert row["median_us"] == (record.measurement.median_us if record.measurement else None)
            for each in record.measurement.comparisons if record.measurement else []:
                assert row[f"{each.baseline}_speedup"] == each.speedup


def test_a_second_export_is_the_same_to_the_byte(exported: Path) -> None:
    assert {name: (exported / name).read_bytes() for name in huggingface.files()} == huggingface.files()


# --- the records behind it -----------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an empty folder in the place of the reference records."""
    path = tmp_path / "records"
    (path / "gpu").mkdir(parents=True)
    monkeypatch.setattr(huggingface, "traces_dir", lambda: path)
    return path


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


KINETO = {
    "deviceProperties": [{"id": 0, "name": "Test GPU"}],
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": name, "ts": 10.0 * number, "dur": 4.0, "args": {"device": 0, "stream": 7}}
        for number, name in enumerate(["ampere_sgemm_32x32", "ampere_sgemm_32x32", "copy"], start=1)
    ],
}


def test_no_records_at_all_leave_the_problems(records: Path, tmp_path: Path, opened: Call) -> None:
    files = huggingface.files()
    assert set(files) == {"README.md", PARQUET}
    folder.write(tmp_path / "out", "hf", files)
    assert list(opened(tmp_path / "out")) == ["level_1"]
    assert "## Results" not in files["README.md"].decode()


def test_traces_are_rows_of_kernels(records: Path, tmp_path: Path, opened: Call) -> None:
    (records / "gpu" / "tiny.trace.json.gz").write_bytes(gzip.compress(json.dumps(KINETO).encode()))
    files = huggingface.files()
    folder.write(tmp_path / "out", "hf", files)
    rows = list(opened(tmp_path / "out", "traces")["gpu"])
    assert [(row["workload"], row["gpu"], row["kernel"], row["launches"], row["step_us"]) for row in rows] == [
        ("tiny", "Test GPU", "ampere_sgemm_32x32", 2, [8.0]),
        ("tiny", "Test GPU", "copy", 1, [4.0]),
    ]
    assert "| tiny | - | - | Test GPU | - | 1 | 24 | 12 | 2 | 3 |" in files["README.md"].decode()


def test_the_cards_figures_are_those_of_the_records(
    records: Path, make_result: Callable[..., Result], make_comparison: Callable[..., Comparison]
) -> None:
    for speedup in (2.5, 3.25):
        write_lines(
            records / "gpu" / "results.jsonl", [make_result(comparisons=[make_comparison("eager", speedup, "win")])]
        )
        card = huggingface.files()["README.md"].decode()
        assert f"| 1 EmbeddingBagSum | kernel | correct | 10.0 | {speedup:.2f} win | 80% |" in card


def test_a_sweep_gives_rows_with_their_variant(
    records: Path, tmp_path: Path, opened: Call, make_result: Callable[..., Result]
) -> None:
    write_lines(records / "gpu" / "skew.jsonl", [SweepPoint("ZIPF_EXPONENT", 1.2, make_result())])
    folder.write(tmp_path / "out", "hf", huggingface.files())
    [row] = opened(tmp_path / "out", "results")["gpu"]
    assert (row["file"], row["variant"], row["median_us"]) == ("skew.jsonl", "ZIPF_EXPONENT = 1.2", None)


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[1]\n", b"no JSON\n"])
def test_records_of_another_kind_are_left_out(records: Path, content: bytes) -> None:
    (records / "gpu" / "clock.jsonl").write_bytes(content)
    assert set(huggingface.files()) == {"README.md", PARQUET}


@pytest.mark.parametrize(("name", "content"), [("results.jsonl", b"{}\n"), ("a.trace.json.gz", b"not gzip")])
def test_a_record_that_cannot_be_read_is_named(records: Path, name: str, content: bytes) -> None:
    (records / "gpu" / name).write_bytes(content)
    with pytest.raises(DlrmBenchError, match=name):
        huggingface.files()


# --- problems back from it -----------------------------------------------------------------------


def test_the_same_problems_come_back(exported: Path, problems: ProblemSet) -> None:
    back = load_problems(f"hf:{exported}")
    assert list(back) == list(problems)
    assert [problem.hash for problem in back] == [problem.hash for problem in problems]


def test_a_list_chooses_and_a_level_may_be_named(exported: Path) -> None:
    assert [problem.id for problem in open_problems(f"hf:{exported}:7,EmbeddingBagSum")] == [7, 1]
    assert open_problem(f"hf:{exported}/level_1:7").name == "DotInteraction"
    with pytest.raises(UnknownProblemError, match="did you mean DotInteraction"):
        open_problem(f"hf:{exported}:DotInteractoin")


@pytest.fixture
def kernelbench_layout(tmp_path: Path, root: Path) -> Path:
    """Write what KernelBench's own script pushes: a split a level, four columns, names without `.py`."""
    files = sorted((root / "tests" / "kernelbench" / "KernelBench" / "level1").glob("*.py"))
    for level in (1, 2):
        rows = [
            {"code": path.read_text(), "level": level, "name": path.stem, "problem_id": int(path.stem.split("_")[0])}
            for path in files[level - 1 :]
        ]
        target = tmp_path / "theirs" / "data" / f"level_{level}-00000-of-00001.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows).to_parquet(str(target))
    return tmp_path / "theirs"


def test_the_layout_of_kernelbench_opens_without_cards(kernelbench_layout: Path, root: Path) -> None:
    opened = load_problems(f"hf:{kernelbench_layout}")
    checkout = load_problems(f"kernelbench:{root / 'tests' / 'kernelbench'}")
    assert list(opened) == list(checkout)
    assert {problem.cases for problem in opened} == {CARDLESS_CASES}
    assert len(load_problems(f"hf:{kernelbench_layout}", level=2)) == 3
    assert {problem.level for problem in open_problems(f"hf:{kernelbench_layout}/level_2")} == {2}


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    from pyarrow import parquet

    parquet.write_table(change(parquet.read_table(path / PARQUET)), path / PARQUET)


def twice(table: Any) -> Any:
    import pyarrow

    return pyarrow.concat_tables([table, table])


def spoiled_card(table: Any) -> Any:
    import pyarrow

    cards = pyarrow.array(['{"title": 3}'] * table.num_rows)
    return table.set_column(table.column_names.index("card"), "card", cards)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda table: table.drop_columns(["code", "problem_id"]), "holds no problems: .*without problem_id, code"),
        (twice, "both have the id 1"),
        (spoiled_card, r"row 1: Expected `str`, got `int` - at `\$\.title`"),
        (lambda table: table.cast(as_text(table)), "row 1: Expected `int`, got `str` - at `\\$.problem_id`"),
    ],
    ids=["columns", "twice", "card", "type"],
)
def test_a_foreign_dataset_is_refused(copy: Path, change: Callable[[Any], Any], complaint: str) -> None:
    rewrite(copy, change)
    with pytest.raises(UsageError, match=complaint):
        load_problems(f"hf:{copy}")


def as_text(table: Any) -> Any:
    import pyarrow

    at = table.column_names.index("problem_id")
    return table.schema.set(at, pyarrow.field("problem_id", pyarrow.string()))


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("hf:{}/level_3", r"no data/level_3-\*\.parquet in .*copy; it has level_1"),
        ("hf:{}/nowhere", "no folder .*nowhere', and no name on the Hub either"),
        ("hf:{}/data", "problems have a split for each level"),
        ("hf:", "no folder ''"),
    ],
)
def test_a_place_without_problems_is_refused(copy: Path, place: str, complaint: str) -> None:
    with pytest.raises(MissingFileError, match=complaint):
        load_problems(place.format(copy))


def test_a_file_cut_short_is_refused_with_its_name(copy: Path) -> None:
    content = (copy / PARQUET).read_bytes()
    (copy / PARQUET).write_bytes(content[:1000])
    with pytest.raises(MissingFileError, match=r"cannot read .*level_1-00000-of-00001\.parquet"):
        load_problems(f"hf:{copy}")


# --- the Hub -------------------------------------------------------------------------------------

COMMIT = "0" * 40


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the Hub as a snapshot of one dataset needs: `owner/dataset`, the files of a folder."""

    folder: Path

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def answer(self, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        names = {file.relative_to(self.folder).as_posix(): file for file in self.folder.rglob("*") if file.is_file()}
        file = names.get(path.removeprefix(f"/datasets/owner/dataset/resolve/{COMMIT}/"))
        if path == "/api/datasets/owner/dataset/revision/main":
            content = json.dumps(
                {"id": "owner/dataset", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            )
            self.reply(200, content.encode(), with_body)
        elif path == f"/api/datasets/owner/dataset/tree/{COMMIT}":
            entries = [
                {"type": "file", "oid": COMMIT, "size": names[name].stat().st_size, "path": name} for name in names
            ]
            self.reply(200, json.dumps(entries).encode(), with_body)
        elif file is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()}"'
            self.reply(200, content, with_body, {"ETag": tag, "X-Repo-Commit": COMMIT})
        else:
            self.reply(404, b"", with_body, {"X-Error-Code": "RepoNotFound"})

    def reply(self, status: int, content: bytes, with_body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


OPEN = """
import sys
from dlrm_bench.errors import DlrmBenchError
from dlrm_bench.problems import open_problem
for place in sys.argv[1:]:
    try:
        print(open_problem(place).hash)
    except DlrmBenchError as error:
        print(error.kind)
"""


@pytest.fixture
def hub(exported: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    handler = type("ExportedHub", (Hub,), {"folder": exported})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_problems_of_the_hub_open_and_then_without_it(
    hub: http.server.ThreadingHTTPServer, python: Call, root: Path, tmp_path: Path
) -> None:
    endpoint = f"http://127.0.0.1:{hub.server_address[1]}"
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")}

    def opened(*places: str) -> list[str]:
        called = python("-c", OPEN, *places, env=environment)
        assert (called.code, called.err) == (0, "")
        return called.out.splitlines()

    assert opened("hf:owner/dataset:7", "hf:owner/other") == [load_problems().find(7).hash, "missing_file"]
    hub.shutdown()
    hub.server_close()
    assert opened("hf:owner/dataset:7", "hf:owner/other") == [load_problems().find(7).hash, "cannot_run"]


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hf", "kernelbench"])
def test_export_writes_and_checks(cli: Call, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    written = cli("export", kind, target, "--json")
    assert (written.code, written.err) == (0, "")
    assert all((target / name).is_file() for name in written.json["files"])
    assert cli("export", kind, target, "--check", "--json").json["same"]
    (target / "README.md").write_text("spoiled")
    checked = cli("export", kind, target, "--check")
    assert (checked.code, checked.out) == (1, "README.md: line 1 differs\n")
    refused = cli("export", kind, target, "--json")
    assert (refused.code, refused.json["error"]["kind"]) == (2, "usage")


def test_check_names_the_row_and_the_column(copy: Path, cli: Call) -> None:
    import pyarrow

    def change(table: Any) -> Any:
        titles = table["title"].to_pylist()
        titles[6] = "another"
        return table.set_column(table.column_names.index("title"), "title", pyarrow.array(titles))

    rewrite(copy, change)
    assert cli("export", "hf", copy, "--check").out == f"{PARQUET}: row 7, column title: differs\n"
    rewrite(copy, lambda table: table.slice(0, 3))
    assert cli("export", "hf", copy, "--check").out == f"{PARQUET}: 3 rows, and not 12\n"
    rewrite(copy, lambda table: table.drop_columns(["title"]))
    assert cli("export", "hf", copy, "--check").out == f"{PARQUET}: other columns or types: title\n"
    (copy / PARQUET).write_bytes(b"no")
    assert "is no Parquet file" in cli("export", "hf", copy, "--check").out


def test_the_same_rows_in_other_bytes_are_no_difference(copy: Path, exported: Path, cli: Call) -> None:
    from pyarrow import parquet

    parquet.write_table(parquet.read_table(copy / PARQUET), copy / PARQUET, compression="zstd")
    assert (copy / PARQUET).read_bytes() != (exported / PARQUET).read_bytes()
    assert cli("export", "hf", copy, "--check").code == 0


@pytest.mark.parametrize("package", ["pyarrow", "huggingface_hub"])
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    python: Call, exported: Path, package: str, tmp_path: Path
) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; from dlrm_bench.cli import main; main()"
    arguments = ["export", "hf", tmp_path / "out"] if package == "pyarrow" else ["show", "hf:owner/dataset:7"]
    called = python("-c", script, *arguments, "--json")
    assert (called.code, called.json["error"]["kind"]) == (3, "missing_package")
    assert f"{package} is not installed; pip install 'dlrm-bench[hf]'" in called.json["error"]["message"]
    assert not (tmp_path / "out").exists()


# --- show without a card -------------------------------------------------------------------------


def test_show_prints_a_problem_without_a_card(cli: Call, kernelbench_layout: Path) -> None:
    called = cli("show", f"hf:{kernelbench_layout}:39", "--data")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("39 L2Norm__long_rows: no card: ")
    assert "  x                       bfloat16[" in called.out
    shown = cli("show", f"hf:{kernelbench_layout}:39", "--json").json
    assert [case["name"] for case in shown["cases"]] == list(CARDLESS_CASES[1:])
    assert shown["constants"].keys() == {"full"}


@pytest.mark.parametrize(("options", "message"), [(["--size", "small"], "has no card"), ([], "names 4 problems")])
def test_show_refuses_what_such_a_problem_has_not(
    cli: Call, kernelbench_layout: Path, options: list[str], message: str
) -> None:
    place = f"hf:{kernelbench_layout}:39" if options else f"hf:{kernelbench_layout}"
    called = cli("show", place, "--data", *options)
    assert called.code == 2
    assert message in called.err
