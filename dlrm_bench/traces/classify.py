"""What a kernel does, whose code it is, and whether it is addressable: the tables in rules.toml and policies.toml."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib import resources
from typing import NamedTuple, TypeVar

import msgspec

from dlrm_bench.records import Record, Trace, TraceRow

UNKNOWN = "unknown"
COLLECTIVE = "collective"
NEVER_ADDRESSABLE = frozenset({UNKNOWN, COLLECTIVE, "memory_copy"})
LONGEST_NAME = 512
_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\(anonymous\)")
_CASTS = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long|float|size_t)\)(?=[-\w])")
_POINTERS = re.compile(r"\s+([*&])")
_CLONES = re.compile(r"\s*\[(?:clone|with)[^\]]*\]|\.kd$")
Table = TypeVar("Table")


class Rule(Record, frozen=True):
    """A row of rules.toml."""

    id: str
    operation: str
    owner: str
    kernel: str = ""
    operator: str | None = None


class OperatorRule(Record, frozen=True):
    """What the kernels of an operator must be doing: a yardstick for classifying by name."""

    operator: str
    operations: list[str]


class Rules(Record, frozen=True):
    """The whole of rules.toml."""

    version: int
    rule: list[Rule]
    operator: list[OperatorRule]


class Agreement(NamedTuple):
    """How far names alone agree with the launching operator.

    Attributes:
        agreement: share of the judged kernel time in which they do.
        judged: share of all kernel time whose operator says what its kernels do.
        disagreements: kernel name, operator, operation by name, and time in microseconds; the longest first.
    """

    agreement: float
    judged: float
    disagreements: list[tuple[str, str, str, float]]


def read_table(name: str, layout: type[Table]) -> Table:
    """Read one of the package's own TOML tables."""
    return msgspec.toml.decode(resources.files(__package__).joinpath(name).read_bytes(), type=layout)


@functools.cache
def rules() -> Rules:
    """Return the rules that ship with the package."""
    return read_table("rules.toml", Rules)


@functools.cache
def normalise(name: str) -> str:
    """Return a kernel's name without its argument list, and in one spelling whatever tool wrote it.

    Argument types would match rules that are meant for kernels, and nsys demangles otherwise than CUPTI.
    """
    name = _CLONES.sub("", _ANONYMOUS.sub("anonymous", name.strip()))
    name = _POINTERS.sub(r"\1", _CASTS.sub("", name))
    name = _without_arguments(re.sub(r">\s+(?=>)", ">", name))
    return name[:LONGEST_NAME]


def classify(kernel: str, operator: str | None = None) -> Rule:
    """Return the first rule for a kernel, by its normalised name and, where it is known, its operator."""
    return _classify(kernel, operator)


@functools.cache
def _classify(kernel: str, operator: str | None) -> Rule:
    for rule, in_kernel, in_operator in _compiled():
        if not in_kernel.search(kernel):
            continue
        if in_operator is None or (operator is not None and in_operator.search(operator)):
            return rule
    return Rule(UNKNOWN, UNKNOWN, UNKNOWN)


def classify_anew(trace: Trace) -> Trace:
    """Return a trace with its rows classified by the rules that ship with this release."""
    found = [classify(row.kernel, row.operator) for row in trace.rows]
    rows = [
        msgspec.structs.replace(row, operation=rule.operation, owner=rule.owner)
        for row, rule in zip(trace.rows, found, strict=True)
    ]
    return msgspec.structs.replace(trace, rules=rules().version, rows=rows)


def name_agreement(rows: Iterable[TraceRow]) -> Agreement:
    """Measure classification by name alone against what the launching operators must be doing."""
    yardstick = [(re.compile(each.operator), set(each.operations)) for each in rules().operator]
    total = judged = agreed = 0.0
    wrong: list[tuple[str, str, str, float]] = []
    for row in rows:
        total += row.total_us
        right = next((right for pattern, right in yardstick if row.operator and pattern.search(row.operator)), None)
        if right is None or row.operator is None:
            continue
        judged += row.total_us
        by_name = classify(row.kernel).operation
        if by_name in right:
            agreed += row.total_us
        else:
            wrong.append((row.kernel, row.operator, by_name, row.total_us))
    return Agreement(
        agreed / judged if judged else 1.0,
        judged / total if total else 0.0,
        sorted(wrong, key=lambda each: -each[3]),
    )


@functools.cache
def _compiled() -> list[tuple[Rule, re.Pattern[str], re.Pattern[str] | None]]:
    return [
        (rule, re.compile(rule.kernel), re.compile(rule.operator) if rule.operator else None) for rule in rules().rule
    ]


def _without_arguments(name: str) -> str:
    depth = 0
    for place, letter in enumerate(name):
        if letter == "(" and depth == 0 and place and not name[:place].endswith("operator"):
            return name[:place].rstrip()
        if letter in "<{(":
            depth += 1
        elif letter in ">})" and depth:
            depth -= 1
    return name
