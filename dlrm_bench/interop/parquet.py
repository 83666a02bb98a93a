"""Rows as Parquet, in the same bytes each time, and what two such files differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlrm_bench.errors import MissingPackageError
from dlrm_bench.problems.hub import INSTALL

Row = dict[str, Any]
Columns = Mapping[str, str]
"""Types by the columns' names, as Arrow calls them; `[]` behind one makes a list of it."""


def encode(rows: Sequence[Row], columns: Columns) -> bytes:
    """Return rows as a Parquet file; what a row lacks is null.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    arrow = _require_pyarrow()
    schema = arrow.schema([(name, _type(arrow, text)) for name, text in columns.items()])
    sink = arrow.BufferOutputStream()
    arrow.parquet.write_table(arrow.Table.from_pylist(list(rows), schema), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def differences(there: bytes, here: bytes) -> list[str]:
    """Say in a phrase each what the rows of one file have otherwise than another's.

    Bytes do not count: another release of pyarrow writes the same rows in others.
    """
    arrow = _require_pyarrow()
    new = arrow.parquet.read_table(arrow.BufferReader(here))
    try:
        old = arrow.parquet.read_table(arrow.BufferReader(there))
    except arrow.ArrowException as error:
        return [f"is no Parquet file: {error}"]
    if old.schema != new.schema:
        fields = sorted({field.name for field in {*old.schema} ^ {*new.schema}})
        return [f"other columns or types: {', '.join(fields) or 'in another order'}"]
    if old.num_rows != new.num_rows:
        return [f"{old.num_rows} rows, and not {new.num_rows}"]
    return [
        f"row {row}, column {name}: differs"
        for name in new.column_names
        if (row := _first_difference(old[name].to_pylist(), new[name].to_pylist())) is not None
    ]


def _first_difference(old: Sequence[Any], new: Sequence[Any]) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=True), start=1) if a != b), None)


def _type(arrow: Any, text: str) -> Any:
    return arrow.list_(_type(arrow, text[:-2])) if text.endswith("[]") else arrow.type_for_alias(text)


def _require_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(f"the package pyarrow is not installed; {INSTALL}") from error
    return pyarrow
