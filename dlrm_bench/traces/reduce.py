"""From linked kernels to the rows of a trace."""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dlrm_bench
from dlrm_bench.errors import TraceError
from dlrm_bench.records import Launches, Linking, Mode, Precision, Provenance, Setting, Trace, TraceRow
from dlrm_bench.traces.classify import classify, normalise, rules
from dlrm_bench.traces.intervals import occupancy
from dlrm_bench.traces.link import LinkedLaunch, link
from dlrm_bench.traces.profile import Profile, Span
from dlrm_bench.traces.store import SCHEMA

MOST_SHAPES = 8
_DIGITS = 2
_PRECISIONS: dict[str, Precision] = {"c10::bfloat16": "bf16", "c10::half": "fp16", "float": "fp32"}
RowKey = tuple[str, str | None, str | None, str | None, tuple[tuple[int, ...], ...], str | None]


@dataclass(slots=True)
class _Row:
    launches: int = 0
    step_us: Counter[int] = field(default_factory=Counter)
    exclusive_us: float = 0.0
    shared_us: float = 0.0


def reduce_profile(
    profile: Profile,
    workload: str,
    *,
    mode: Mode | None = None,
    precision: Precision | None = None,
    configuration: Mapping[str, Setting] | None = None,
    provenance: Provenance | None = None,
    wall_us: Sequence[float] = (),
    with_launches: bool = True,
) -> Trace:
    """Link, classify and add up the kernels of the profiled steps.

    Steps are what torch.profiler marks as `ProfilerStep#n`; without marks the whole profile is one step. The first of
    several steps is left out, since the profiler may miss kernels of it.

    Args:
        profile: what was read from a Kineto file.
        workload: name of the workload.
        mode: whether a step also goes backward.
        precision: dtype of weights and activations; taken from the operators' inputs if left out.
        configuration: what the workload was built from.
        provenance: where it was taken; from the file, so far as it says, if left out.
        wall_us: steps without the profiler, in microseconds.
        with_launches: whether the launches of one step are kept for a replay.

    Raises:
        TraceError: no kernel lies within the steps.
    """
    device = _busiest_device(profile)
    linked = [each for each in link(profile) if each.launch.device == device]
    steps, of_step, left_out = _by_step(profile, linked)
    kept = [launch for launches in of_step for launch in launches]
    rows, busy = _add_up(of_step)
    order = sorted(rows, key=lambda key: (-sum(rows[key].step_us.values()), str(key)))
    walls = [step.end - step.start for step in steps]
    middle = sorted(range(len(steps)), key=walls.__getitem__)[len(steps) // 2]
    return Trace(
        schema=SCHEMA,
        workload=workload,
        mode=mode,
        precision=precision or _precision(kept),
        configuration=dict(configuration or {}),
        provenance=provenance or _provenance(profile, device),
        wall_us=[_rounded(each) for each in wall_us],
        profiled_wall_us=[_rounded(each) for each in walls],
        busy_us=[_rounded(each) for each in busy],
        rules=rules().version,
        linking=_linking(kept),
        untimed=profile.untimed,
        outside=len(profile.kernels) - len(kept) - left_out,
        with_stack=bool(profile.header.with_stack),
        rows=[_trace_row(key, rows[key], len(steps)) for key in order],
        launches=_launches(of_step[middle], steps[middle], profile.waits, order) if with_launches else None,
    )


def _busiest_device(profile: Profile) -> int | str | None:
    time: Counter[int | str | None] = Counter()
    for launch in profile.kernels:
        time[launch.device] += launch.end - launch.start  # type: ignore[assignment]
    return time.most_common(1)[0][0]


def _by_step(profile: Profile, linked: Sequence[LinkedLaunch]) -> tuple[list[Span], list[list[LinkedLaunch]], int]:
    """Return the steps, the launches of each, and how many launches are left out with the first of several."""
    # Every thread that torch runs may carry the mark of one and the same step.
    marks = sorted({mark.name: mark for mark in profile.steps}.values(), key=lambda mark: mark.start)
    if not marks:
        start = min(min(each.host, each.launch.start) for each in linked)
        marks = [Span("all", start, max(each.launch.end for each in linked), (None, None))]
    starts = [mark.start for mark in marks]
    held: dict[int, list[LinkedLaunch]] = defaultdict(list)
    for each in linked:
        place = bisect.bisect_right(starts, each.host) - 1
        if place >= 0 and each.host <= marks[place].end:
            held[place].append(each)
    if not held:
        raise TraceError(f"{profile.path}: none of its {len(linked)} kernels was launched within its steps")
    places = sorted(held)
    kept = places[1:] if len(places) > 1 else places
    left_out = len(held[places[0]]) if len(places) > 1 else 0
    return [marks[place] for place in kept], [held[place] for place in kept], left_out


def _add_up(of_step: Sequence[Sequence[LinkedLaunch]]) -> tuple[dict[RowKey, _Row], list[float]]:
    rows: dict[RowKey, _Row] = defaultdict(_Row)
    busy = []
    for step, launches in enumerate(of_step):
        times = occupancy([each.launch.start for each in launches], [each.launch.end for each in launches])
        busy.append(times.busy)
        for each, exclusive, shared in zip(launches, times.exclusive, times.shared, strict=True):
            row = rows[_key(each)]
            row.launches += 1
            row.step_us[step] += each.launch.end - each.launch.start  # type: ignore[assignment]
            row.exclusive_us += float(exclusive)
            row.shared_us += float(shared)
    return rows, busy


def _key(each: LinkedLaunch) -> RowKey:
    operator = each.operator
    shapes = tuple(tuple(shape) for shape in (operator.shapes or [])[:MOST_SHAPES]) if operator else ()
    name = operator.name if operator else None
    return (normalise(each.launch.name), name, each.outer, each.part, shapes, operator.dtype if operator else None)


def _trace_row(key: RowKey, row: _Row, steps: int) -> TraceRow:
    kernel, operator, outer, part, shapes, dtype = key
    rule = classify(kernel, operator)
    return TraceRow(
        kernel=kernel,
        operator=operator,
        outer=outer,
        part=part,
        shapes=[list(shape) for shape in shapes],
        dtype=dtype,
        operation=rule.operation,
        owner=rule.owner,
        launches=row.launches,
        step_us=[_rounded(row.step_us[step]) for step in range(steps)],
        exclusive_us=_rounded(row.exclusive_us),
        shared_us=_rounded(row.shared_us),
    )


def _launches(launches: Sequence[LinkedLaunch], step: Span, waits: Sequence[Span], order: Sequence[RowKey]) -> Launches:
    places = {key: place for place, key in enumerate(order)}
    waiting = sorted((each for each in waits if step.start <= each.start <= step.end), key=lambda each: each.start)
    return Launches(
        row=[places[_key(each)] for each in launches],
        stream=[each.launch.stream for each in launches],
        host_us=[_rounded(each.host - step.start) for each in launches],
        start_us=[_rounded(each.launch.start - step.start) for each in launches],
        duration_us=[_rounded(each.launch.end - each.launch.start) for each in launches],
        waits_us=[_rounded(each.start - step.start) for each in waiting],
        waits_end_us=[_rounded(each.end - step.start) for each in waiting],
        wall_us=_rounded(step.end - step.start),
    )


def _linking(launches: Sequence[LinkedLaunch]) -> Linking:
    time: Counter[str | None] = Counter()
    for each in launches:
        time[each.found_by] += each.launch.end - each.launch.start  # type: ignore[assignment]
    total = sum(time.values())
    external, correlation = (round(time[how] / total, 6) for how in ("external_id", "correlation"))
    return Linking(external, correlation, round(time[None] / total, 6))


def _precision(launches: Sequence[LinkedLaunch]) -> Precision | None:
    time: Counter[Precision] = Counter()
    for each in launches:
        precision = _PRECISIONS.get((each.operator.dtype or "").lower()) if each.operator else None
        if precision is not None:
            time[precision] += each.launch.end - each.launch.start  # type: ignore[assignment]
    return time.most_common(1)[0][0] if time else None


def _provenance(profile: Profile, device: int | str | None) -> Provenance:
    header = profile.header
    names = {each.id: each.name for each in header.device_properties}
    gpu = names.get(device if isinstance(device, int) else 0) or next(iter(names.values()), "")
    return Provenance(
        gpu=re.sub(r"[^\w .+()-]", "", gpu)[:64] or "unknown GPU",
        driver=_cuda_version(header.cuda_driver_version),
        cuda=_cuda_version(header.cuda_runtime_version),
        torch=None,
        dlrm_bench=dlrm_bench.__version__,
    )


def _cuda_version(number: int | None) -> str | None:
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)
