"""Ways of catching a submission that is right only when it is looked at in one way.

Each probe is a function of a bench and some trials that the submission has already passed, and returns what it found.
docs/correctness.md says which attack each of them answers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import torch

from dlrm_bench.correctness.bench import POISONS, Bench, most_kept_calls, room_for_inputs, same_bits
from dlrm_bench.correctness.oracle import Trial
from dlrm_bench.records import Reason

Probe = Callable[[Bench, Sequence[Trial]], list[Reason]]
SHIFT_BYTES = 1 << 16
MANY_CALLS = 48
"""More calls than the judge makes one by one, so that a submission cannot count its way past it."""
JUDGED_OF_MANY = 12
SETS_OF_MANY = 7
"""Inputs in turn: a number that no small number of buffers in turn divides."""
GIVEN_BYTES = 8 << 30
"""Inputs given at a time, beyond those of the trials themselves."""
SETTLE_S = 0.05
"""How long work that was left running may take to show."""


def unwritten(bench: Bench, trials: Sequence[Trial]) -> list[Reason]:
    """Call twice over memory filled with different bytes: an element that holds either filling was never written."""
    outputs = [bench.call(trials[0], poison=poison).output for poison in POISONS]
    left = [_holds(output, poison) for output, poison in zip(outputs, POISONS, strict=True) if output is not None]
    if len(left) < len(POISONS):
        return []
    share = float((left[0] & left[1]).double().mean()) if left[0].numel() else 0.0
    if share == 0:
        return []
    message = f"{share:.2%} of the output was never written: it holds whatever was in memory before"
    return [Reason("not_written", f"{message}, on case {bench.case}", bench.case, share, 0.0)]


def owned(bench: Bench, trials: Sequence[Trial]) -> list[Reason]:
    """Call once and overwrite the inputs: the output must not have been a view of them."""
    outcome = bench.call(trials[0])
    if outcome.output is None or outcome.reasons:
        return outcome.reasons
    bench.wipe_inputs()
    if same_bits(bench.output_now(trials[0], -1), outcome.output):
        return []
    message = "the output changed with the inputs: it shares memory with one, or was not done"
    return [Reason("output_aliased", f"{message}, on case {bench.case}", bench.case)]


def overwritten(bench: Bench, trials: Sequence[Trial]) -> list[Reason]:
    """Call twice and look at the first output again: it must not have changed.

    One that another thread or stream finishes after forward has returned changes too.
    """
    first, second = bench.call(trials[0]), bench.call(trials[1])
    if first.output is None or first.reasons or second.reasons:
        return [*first.reasons, *second.reasons]
    time.sleep(SETTLE_S)
    if same_bits(bench.output_now(trials[0], -2), first.output):
        return []
    message = "an output changed after it was returned: it shares memory with a later output, or was not done"
    return [Reason("output_aliased", f"{message}, on case {bench.case}", bench.case)]


def repeated(bench: Bench, trials: Sequence[Trial]) -> list[Reason]:
    """Ask for the first trial again, at the old address and then at a new one."""
    for shift in (0, SHIFT_BYTES):
        outcome = bench.call(trials[0], shift=shift)
        if outcome.reasons:
            message = f"right at first, but wrong when asked again: {outcome.reasons[0].message}"
            return [Reason("not_repeatable", message, bench.case)]
    return []


def counted(bench: Bench, trials: Sequence[Trial]) -> list[Reason]:
    """Make many calls as the clock does, and judge some of them at random."""
    choice = random.SystemRandom()
    calls = most_kept_calls(trials[0], MANY_CALLS)
    most = GIVEN_BYTES // max(1, room_for_inputs(trials[0].inputs))
    order = [*trials, *choice.choices(trials, k=max(0, min(SETS_OF_MANY, most) - len(trials)))]
    sets = [trial.inputs for trial in order]
    bench.time(sets, calls)
    changed = bench.inputs_changed(sets)
    if changed:
        return changed
    for call in choice.sample(range(calls), min(calls, JUDGED_OF_MANY)):
        trial = order[call % len(order)]
        reasons = bench.wrong_by_now(trial, call)
        if reasons:
            return [Reason("wrong_while_timed", f"wrong at call {call + 1} in a row: {reasons[0].message}", bench.case)]
    return []


def renewed(bench: Bench, trial: Trial) -> list[Reason]:
    """Call once with other weights written where the model's are: nothing made of the old ones may be left."""
    reasons = bench.call(trial).reasons
    if not reasons:
        return []
    message = f"it was given other weights, and its output is not theirs: {reasons[0].message}"
    return [Reason("stale_weights", message, bench.case, reasons[0].value, reasons[0].threshold)]


ON_EVERY_CASE: tuple[Probe, ...] = (owned,)
PROBES: tuple[Probe, ...] = (owned, overwritten, unwritten, counted, repeated)


def _holds(output: torch.Tensor, poison: int) -> torch.Tensor:
    """Return which elements consist of the byte `poison`."""
    item = output.element_size()
    as_bytes = output.contiguous().reshape(-1, 1).view(torch.uint8).reshape(-1, item)
    return (as_bytes == poison).all(dim=1)
