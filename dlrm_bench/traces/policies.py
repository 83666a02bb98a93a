"""What counts as addressable, and which problem stands for which kernels."""

from __future__ import annotations

import functools
import re

import msgspec

from dlrm_bench.errors import UsageError
from dlrm_bench.records import Record, TraceRow
from dlrm_bench.traces.classify import NEVER_ADDRESSABLE, read_table

DEFAULT_POLICY = "paper"


class PolicyRule(Record, frozen=True):
    """A row of policies.toml."""

    addressable: bool
    operation: list[str] | None = None
    owner: list[str] | None = None

    def fits(self, operation: str, owner: str) -> bool:
        """Tell whether every key that the rule has holds the kernel's value."""
        return (self.operation is None or operation in self.operation) and (self.owner is None or owner in self.owner)


class Policy(Record, frozen=True):
    """What counts as addressable.

    Attributes:
        about: the policy in a few words.
        otherwise: what holds where no rule does.
        rule: in order.
        covered_only: whether only kernels count that a problem stands for, whatever the rules say.
    """

    about: str
    otherwise: bool
    rule: list[PolicyRule] = msgspec.field(default_factory=list)
    covered_only: bool = False

    def addressable(self, row: TraceRow) -> bool:
        """Tell whether the time of a row counts."""
        if row.operation in NEVER_ADDRESSABLE:
            return False
        if self.covered_only:
            return stand_in(row) is not None
        fitting = (rule.addressable for rule in self.rule if rule.fits(row.operation, row.owner))
        return next(fitting, self.otherwise)


class StandIn(Record, frozen=True):
    """A row of stands_for.toml: which problem stands for kernels, and why.

    Attributes:
        problem: name of the problem.
        reason: why the problem stands for them.
        operation: the kernels' operations, any of them.
        owner: the kernels' owners, any of them.
        operator: searched in the innermost operator.
        part: searched in the annotation around the launch.
        kernel: searched in the kernel's name.
        same: constants of the problem by name, each with the name that the workload's configuration has for it.
    """

    problem: str
    reason: str
    operation: list[str] | None = None
    owner: list[str] | None = None
    operator: str | None = None
    part: str | None = None
    kernel: str | None = None
    same: dict[str, str] = msgspec.field(default_factory=dict)

    def fits(self, row: TraceRow) -> bool:
        """Tell whether the problem stands for a row's kernels."""
        patterns = ((self.operator, row.operator), (self.part, row.part), (self.kernel, row.kernel))
        return (
            (self.operation is None or row.operation in self.operation)
            and (self.owner is None or row.owner in self.owner)
            and all(pattern is None or re.search(pattern, text or "") for pattern, text in patterns)
        )


class _StandIns(Record, frozen=True):
    stand_in: list[StandIn]


@functools.cache
def policies() -> dict[str, Policy]:
    """Return the policies that ship with the package, by name."""
    return read_table("policies.toml", dict[str, Policy])


def find_policy(name: str) -> Policy:
    """Return one policy.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in policies():
        raise UsageError(f"no policy {name!r}; there are {', '.join(policies())}")
    return policies()[name]


@functools.cache
def stand_ins() -> list[StandIn]:
    """Return the table of which problem stands for which kernels."""
    return read_table("stands_for.toml", _StandIns).stand_in


def stand_in(row: TraceRow) -> StandIn | None:
    """Return the first entry for a row's kernels, if any problem stands for them."""
    if row.operation in NEVER_ADDRESSABLE:
        return None
    return next((each for each in stand_ins() if each.fits(row)), None)
