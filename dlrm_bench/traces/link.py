"""From a kernel to the operator that launched it.

Newer files give kernel and operator a common external id. Where it is missing, the correlation id leads to the host's
call that launched the kernel, and the innermost operator around that call, on the same thread, is the one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dlrm_bench.traces.profile import Launch, Profile, Span, Thread


@dataclass(slots=True)
class Surroundings:
    """What a host's call lies in: the operators around it from the outermost to the innermost, and the annotation."""

    operator: Span | None
    outer: Span | None
    part: Span | None


@dataclass(slots=True)
class LinkedLaunch:
    """A kernel with what is known of its launch.

    Attributes:
        launch: the kernel.
        operator: the innermost operator that launched it.
        outer: the outermost operator around the launch.
        part: the innermost annotation around the launch.
        host: when the host began the launch; the kernel's own start if that is not known.
        found_by: how the operator was found.
    """

    launch: Launch
    operator: Span | None
    outer: str | None
    part: str | None
    host: float
    found_by: Literal["external_id", "correlation"] | None


def link(profile: Profile) -> list[LinkedLaunch]:
    """Link every kernel, in the order of the host's launches."""
    operators: dict[int, Span] = {}
    for operator in profile.operators:
        if operator.id is not None:
            operators.setdefault(operator.id, operator)
    calls = {call.id: call for call in profile.calls if call.id is not None}
    around = _surroundings(profile)
    linked = [_link_one(launch, operators, calls, around) for launch in profile.kernels]
    return sorted(linked, key=lambda each: (each.host, each.launch.start))


def _link_one(
    launch: Launch, operators: dict[int, Span], calls: dict[int, Span], around: dict[int, Surroundings]
) -> LinkedLaunch:
    call = calls.get(launch.correlation) if launch.correlation is not None else None
    lies_in = around.get(id(call)) if call is not None else None
    operator = operators.get(launch.external_id) if launch.external_id is not None else None
    found_by: Literal["external_id", "correlation"] | None = "external_id" if operator else None
    if operator is None and lies_in is not None and lies_in.operator is not None:
        operator, found_by = lies_in.operator, "correlation"
    outer = lies_in.outer if lies_in is not None and lies_in.outer is not None else operator
    return LinkedLaunch(
        launch,
        operator,
        outer.name if outer is not None else None,
        lies_in.part.name if lies_in is not None and lies_in.part is not None else None,
        call.start if call is not None else launch.start,
        found_by,
    )


def _surroundings(profile: Profile) -> dict[int, Surroundings]:
    """Return what every call lies in, by the identity of the call."""
    spans: dict[Thread, list[tuple[float, float, int, Span]]] = defaultdict(list)
    # At equal times a call is inside an operator, and that inside an annotation.
    for depth, group in enumerate((profile.annotations, profile.operators, profile.calls)):
        for span in group:
            spans[span.thread].append((span.start, -span.end, depth, span))
    return {id(call): found for thread in spans.values() for call, found in _sweep(thread)}


def _sweep(spans: list[tuple[float, float, int, Span]]) -> Iterator[tuple[Span, Surroundings]]:
    operators: list[Span] = []
    annotations: list[Span] = []
    for start, _, depth, span in sorted(spans, key=lambda each: each[:3]):
        for stack in (operators, annotations):
            while stack and stack[-1].end <= start:
                stack.pop()
        if depth == 0:
            annotations.append(span)
        elif depth == 1:
            operators.append(span)
        else:
            inner, outer = (operators[-1], operators[0]) if operators else (None, None)
            yield span, Surroundings(inner, outer, annotations[-1] if annotations else None)
