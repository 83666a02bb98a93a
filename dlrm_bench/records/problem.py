"""A problem's sidecar."""

from __future__ import annotations

import msgspec

from dlrm_bench.records.base import Bound, Constant, Family, Library, Record


class Case(Record, frozen=True):
    """Another size or another kind of index data, as changes to the file's module constants."""

    name: str
    about: str
    set: dict[str, Constant]


class Bags(Record, frozen=True):
    """Which input holds bag boundaries, and which one holds what lies in the bags.

    Attributes:
        offsets: argument of `forward` with the boundaries, [tables * batch + 1].
        items: argument whose leading dimension the boundaries cut.
        longest: module constant at which longer bags are cut off, if any.
    """

    offsets: str
    items: str
    longest: str | None = None


class Tables(Record, frozen=True):
    """Which input looks up rows, in which tables.

    Attributes:
        parameter: prefix of the names of the parameters or buffers that hold the rows.
        indices: argument of `forward` with the row ids; with several tables they are table-major.
        rows: module constant with the rows of the table, or of each table as a list.
        columns: expression over the module constants: elements in a row, or a list of them.
    """

    parameter: str
    indices: str
    rows: str
    columns: str


class ProblemCard(Record, frozen=True):
    """Facts about a problem that its file does not say.

    Attributes:
        title: a few words.
        family: which kind of recommender work it is.
        bound: what limits a good kernel: memory traffic or the matrix units.
        library: what the library baseline is made of.
        summary: what it computes and why it matters, in a few sentences.
        sources: where the operation and its sizes come from.
        operators: operators in traces that it stands for.
        caches_weights: whether a submission may keep a transformed copy of the weights between calls.
        flops: expression for the floating-point operations, over the module constants and, for each argument
            `x` of `forward`, its leading dimension `len_x`.
        small: constants for a size that a CPU runs in well under a second.
        cases: what it is judged on beyond the default.
        exact: whether the output must match to the bit (integers and copies).
        ragged: arguments of `forward` whose leading dimension differs from one set of inputs to the next.
        bags: the bag boundaries, if there are any.
        tables: the tables looked up, if there are any.
    """

    title: str
    family: Family
    bound: Bound
    library: Library
    summary: str
    sources: list[str]
    operators: list[str]
    caches_weights: bool
    flops: str
    small: dict[str, Constant]
    cases: list[Case]
    exact: bool = False
    ragged: list[str] = msgspec.field(default_factory=list)
    bags: Bags | None = None
    tables: Tables | None = None
