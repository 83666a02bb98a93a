"""The data that is written and read: msgspec structs, and nothing else.

Times are in microseconds (`_us`), sizes in bytes, rates in bytes or operations a second, unless a name says otherwise.
"""

from dlrm_bench.records.audit import TRIVIAL, Audit, AuditRequest, AuditRow, AuditSummary, Trivial, TrivialOutcome
from dlrm_bench.records.base import Bound, Constant, Family, Library, Precision, Record, Size
from dlrm_bench.records.measurement import (
    Clock,
    Comparison,
    Costs,
    DeviceState,
    Effort,
    IndexStatistics,
    Kernel,
    Measurement,
    Outcome,
    Roofline,
    SecondClock,
    Telemetry,
)
from dlrm_bench.records.problem import Bags, Case, ProblemCard, Tables
from dlrm_bench.records.report import BaselineSummary, Finding, Summary
from dlrm_bench.records.result import Environment, Result, RunRecord, SweepPoint
from dlrm_bench.records.verdict import (
    FAILURES,
    CaseMetrics,
    Check,
    Failure,
    Metrics,
    Reason,
    ReasonKind,
    Status,
    Verdict,
    failure,
    status_of,
)

__all__ = [
    "FAILURES",
    "TRIVIAL",
    "Audit",
    "AuditRequest",
    "AuditRow",
    "AuditSummary",
    "Bags",
    "BaselineSummary",
    "Bound",
    "Case",
    "CaseMetrics",
    "Check",
    "Clock",
    "Comparison",
    "Constant",
    "Costs",
    "DeviceState",
    "Effort",
    "Environment",
    "Failure",
    "Family",
    "Finding",
    "IndexStatistics",
    "Kernel",
    "Library",
    "Measurement",
    "Metrics",
    "Outcome",
    "Precision",
    "ProblemCard",
    "Reason",
    "ReasonKind",
    "Record",
    "Result",
    "Roofline",
    "RunRecord",
    "SecondClock",
    "Size",
    "Status",
    "Summary",
    "SweepPoint",
    "Tables",
    "Telemetry",
    "Trivial",
    "TrivialOutcome",
    "Verdict",
    "failure",
    "status_of",
]
