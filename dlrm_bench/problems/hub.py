"""Problems as rows: Parquet files laid out as KernelBench's dataset, in a folder or on the Hugging Face Hub."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from dlrm_bench.errors import CannotRunError, MissingFileError, MissingPackageError, UsageError
from dlrm_bench.records import ProblemCard

HUGGING_FACE = "hf:"
"""What a Hugging Face dataset is named with: `hf:DIR` or `hf:OWNER/NAME`."""
COLUMNS = ("code", "level", "name", "problem_id")
"""KernelBench's columns, in its order."""
CARD_COLUMN = "card"
NEEDED = ("problem_id", "name", "code")
INSTALL = "pip install 'dlrm-bench[hf]'"


class Row(msgspec.Struct, frozen=True):
    """A problem as a row: KernelBench's columns, and the card as dlrm-bench exports it."""

    problem_id: int
    name: str
    code: str
    card: ProblemCard | None = None


def read_rows(place: str, level: int) -> list[Row]:
    """Read the problems of one level.

    Args:
        place: a folder, or the name of a dataset on the Hub, `owner/name`.
        level: read from the split `level_{level}`, that is from `data/level_{level}-*.parquet`.

    Raises:
        MissingFileError: there is no such dataset or split, or it cannot be read.
        UsageError: it has not the columns of problems.
        CannotRunError: the Hub cannot be reached, or a package is not installed.
    """
    folder = Path(place).expanduser()
    if not place or not folder.is_dir():
        folder = _download(place, level)
    files = sorted(folder.glob(f"data/level_{level}-*.parquet"))
    if not files:
        others = sorted({path.name.split("-")[0] for path in folder.glob("data/level_*-*.parquet")})
        hint = f"it has {', '.join(others)}" if others else "problems have a split for each level"
        raise MissingFileError(f"no data/level_{level}-*.parquet in {place}; {hint}")
    return [row for file in files for row in _read(file, f"{place}, {file.name}")]


def _download(place: str, level: int) -> Path:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", place):
        raise MissingFileError(f"no folder {place!r}, and no name on the Hub either, which is owner/name")
    try:
        from huggingface_hub import errors, snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError as error:
        raise MissingPackageError(f"the package huggingface_hub is not installed; {INSTALL}") from error
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        # All levels, so that a wrong one can be answered with what is there.
        return Path(snapshot_download(place, repo_type="dataset", allow_patterns="data/level_*.parquet"))
    except errors.RepositoryNotFoundError as error:
        raise MissingFileError(f"no dataset {place} on the Hub, or `hf auth login` is needed to see it") from error
    except (errors.HfHubHTTPError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CannotRunError(f"cannot get {place} from the Hub: {reason}; a folder needs no network: hf:DIR") from error


def _read(file: Path, where: str) -> list[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingPackageError(f"the package pyarrow is not installed; {INSTALL}") from error
    try:
        table = parquet.read_table(file)
    except (OSError, ArrowException) as error:
        raise MissingFileError(f"cannot read {where}: {error}") from error
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise UsageError(
            f"{where} holds no problems: its columns are {', '.join(table.column_names)}, without {', '.join(missing)}"
        )
    wanted = [name for name in (*NEEDED, CARD_COLUMN) if name in table.column_names]
    rows = table.select(wanted).to_pylist()
    return [_row(entry, f"{where}, row {number}") for number, entry in enumerate(rows, start=1)]


def _row(entry: dict[str, Any], where: str) -> Row:
    try:
        card = entry.get(CARD_COLUMN)
        decoded = None if card is None else msgspec.json.decode(card, type=ProblemCard)
        return msgspec.convert({**entry, CARD_COLUMN: decoded}, Row)
    except (msgspec.MsgspecError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from error
