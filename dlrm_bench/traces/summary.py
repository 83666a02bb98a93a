"""What is in a trace: classes of kernels, and the addressable fraction against four denominators."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from dlrm_bench.records import AddressableFraction, ClassShare, Denominator, Trace, TraceRow, TraceSummary
from dlrm_bench.traces.classify import COLLECTIVE, UNKNOWN
from dlrm_bench.traces.policies import DEFAULT_POLICY, Policy, find_policy

MUCH_UNKNOWN = 0.02
MUCH_UNLINKED = 0.2
SLOW_PROFILER = 1.1


def summarise(trace: Trace, policy: str = DEFAULT_POLICY) -> TraceSummary:
    """Sum up a trace under a policy.

    Raises:
        UsageError: there is no such policy.
    """
    chosen = find_policy(policy)
    unknown = sum(row.total_us for row in trace.rows if row.operation == UNKNOWN)
    return TraceSummary(
        workload=trace.workload,
        gpu=trace.provenance.gpu,
        precision=trace.precision,
        policy=policy,
        steps=len(trace.profiled_wall_us),
        wall_us=wall_us(trace),
        wall_is_profiled=not trace.wall_us,
        profiled_wall_us=statistics.median(trace.profiled_wall_us),
        busy_us=statistics.median(trace.busy_us),
        unknown=unknown / sum(row.total_us for row in trace.rows),
        linking=trace.linking,
        untimed=trace.untimed,
        outside=trace.outside,
        addressable=addressable_fractions(trace, chosen),
        classes=_classes(trace, chosen),
        warnings=trace_warnings(trace),
    )


def wall_us(trace: Trace) -> float:
    """Return the median step without the profiler, or with it if there is none without."""
    return statistics.median(trace.wall_us or trace.profiled_wall_us)


def addressable_fractions(trace: Trace, policy: Policy) -> list[AddressableFraction]:
    """Return the addressable part of each denominator, in the order wall, busy, kernels, without communication."""
    steps = len(trace.profiled_wall_us)
    addressable = [row for row in trace.rows if policy.addressable(row)]
    unknown = [row for row in trace.rows if row.operation == UNKNOWN]
    kernels = sum(row.total_us for row in trace.rows)
    communication = sum(row.total_us for row in trace.rows if row.operation == COLLECTIVE)
    denominators: list[tuple[Denominator, float, bool]] = [
        ("wall", wall_us(trace) * steps, True),
        ("busy", sum(trace.busy_us), True),
        ("kernels", kernels, False),
        ("kernels_without_communication", kernels - communication, False),
    ]
    return [
        AddressableFraction(
            name,
            us / steps,
            _time(addressable, shared) / us if us else 0.0,
            (_time(addressable, shared) + _time(unknown, shared)) / us if us else 0.0,
        )
        for name, us, shared in denominators
    ]


def trace_warnings(trace: Trace) -> list[str]:
    """Return what a reader should know before using a trace's figures."""
    kernels = sum(row.total_us for row in trace.rows)
    unknown = sum(row.total_us for row in trace.rows if row.operation == UNKNOWN) / kernels
    profiled = statistics.median(trace.profiled_wall_us)
    found = []
    if unknown > MUCH_UNKNOWN:
        found.append(f"{unknown:.1%} of kernel time is of unknown kind: the addressable fraction is a band")
    if trace.linking.unlinked > MUCH_UNLINKED:
        found.append(f"{trace.linking.unlinked:.0%} of kernel time has no operator: convolutions may count as GEMM")
    if not trace.wall_us:
        found.append("the wall is that of profiled steps, which are slower on the host")
    elif profiled > SLOW_PROFILER * wall_us(trace):
        found.append(f"the profiler made steps {profiled / wall_us(trace):.2f} times as long: gaps in it are not real")
    if trace.with_stack:
        found.append("stacks were recorded, which slows the host down: the wall is too long")
    if trace.untimed:
        found.append(f"{trace.untimed} kernels without a duration above zero were left out")
    if trace.outside:
        found.append(f"{trace.outside} kernels outside the steps, or of another GPU, were left out")
    return found


def _classes(trace: Trace, policy: Policy) -> list[ClassShare]:
    steps = len(trace.profiled_wall_us)
    kernels = sum(row.total_us for row in trace.rows)
    grouped: dict[tuple[str, str, bool], list[TraceRow]] = defaultdict(list)
    for row in trace.rows:
        grouped[row.operation, row.owner, policy.addressable(row)].append(row)
    shares = [
        ClassShare(*kind, sum(row.launches for row in rows) / steps, _time(rows) / steps, _time(rows) / kernels)
        for kind, rows in grouped.items()
    ]
    return sorted(shares, key=lambda each: (-each.us, each.operation, each.owner))


def _time(rows: Iterable[TraceRow], shared: bool = False) -> float:
    return sum(row.shared_us if shared else row.total_us for row in rows)
