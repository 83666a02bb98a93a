"""One child on the judge's bench: give it a trial's inputs, take its output back."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dlrm_bench.correctness.compare import compare, wrong_facts
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.records import CaseMetrics, Precision, Reason
from dlrm_bench.sandbox.arena import Arena, room_for
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.digest import digests
from dlrm_bench.sandbox.messages import Argument, Profiled, TensorRef

POISONS = (0x7F, 0xC3)
"""Bytes that make huge or plainly wrong numbers, finite or not, in every dtype."""

KEPT_OUTPUT_BYTES = 4 << 30
FEWEST_KEPT_CALLS = 5
MOST_SPARE_BYTES = 8 << 30


@dataclass(frozen=True)
class Outcome:
    """What one call came to.

    Attributes:
        reasons: what is wrong with it.
        output: what was returned, as it was then; nothing if it was no tensor of the right kind.
        metrics: how far from the oracle.
    """

    reasons: list[Reason]
    output: torch.Tensor | None = None
    metrics: CaseMetrics | None = None


@dataclass(frozen=True)
class Block:
    """Calls made one after another.

    Attributes:
        times_us: of each call, by the child's clock.
        wall_us: of all of them, by the parent's.
        late: at how many of them a GPU waited for the host, by the child's word.
    """

    times_us: list[float]
    wall_us: float
    late: int


class Bench:
    """Runs trials of one case in one child."""

    def __init__(self, child: Child, case: str) -> None:
        self.child = child
        self.case = case
        self._arena: Arena | None = None
        self._placed: list[list[Argument]] = []
        self._told: list[int] | None = None

    def build(self, oracle: Oracle, weights_seed: int, precision: Precision) -> None:
        """Construct the oracle's models and the child's under one seed."""
        oracle.rebuild(weights_seed)
        self.child.build(oracle.init_inputs, weights_seed, precision)

    def renew(self, oracle: Oracle, weights_seed: int, precision: Precision) -> None:
        """Give the oracle other weights, and write them where those of the child's model are."""
        oracle.rebuild(weights_seed)
        self.child.renew(oracle.init_inputs, weights_seed, precision)

    def call(self, trial: Trial, *, poison: int | None = None, shift: int = 0) -> Outcome:
        """Call the model on a trial's inputs and judge what it returns.

        Args:
            trial: inputs and right answer.
            poison: byte that uninitialised memory holds meanwhile; one of `POISONS` at random if left out.
            shift: bytes by which the inputs lie further back in memory than those of other calls.
        """
        arena = self.child.arena(shift + room_for_trial(trial))
        arena.skip(shift)
        self._reserve(arena, [trial.inputs])
        self._fill([trial.inputs])
        called = self.child.call(self._placed[0], secrets.choice(POISONS) if poison is None else poison)
        wrong = wrong_facts(called, trial, self.case, self.child.device)
        if wrong:
            return Outcome(wrong)
        output = self._fetch(arena, trial, -1, as_returned=True)
        reasons, metrics = compare(output, trial, self.case)
        return Outcome(reasons + self.inputs_changed([trial.inputs]), output, metrics)

    def inputs_changed(self, sets: Sequence[list[Any]]) -> list[Reason]:
        """Return whether what was given in the last call or block is no longer what it was; ask before any output."""
        changed = {
            position
            for placed, inputs in zip(self._placed, sets, strict=True)
            for position, (ref, given) in enumerate(zip(placed, inputs, strict=True))
            if isinstance(ref, TensorRef) and not same_bits(self._given(ref), given)
        }
        if not changed:
            return []
        names = ", ".join(map(str, sorted(changed)))
        return [Reason("input_changed", f"forward wrote into its input {names} on case {self.case}", self.case)]

    def wipe_inputs(self) -> None:
        """Overwrite what was given in the last call, as its owner may."""
        for ref in self._placed[0]:
            if isinstance(ref, TensorRef):
                self._given(ref).flatten().view(torch.uint8).fill_(secrets.choice(POISONS))
        _settle(self.child.device)

    def output_now(self, like: Trial | torch.Tensor, call: int) -> torch.Tensor:
        """Return a kept output as it is by now; `call` counts from the first kept one, or back from the last.

        Args:
            like: what has the dtype and the shape that it must have.
            call: which one.
        """
        arena = self.child.arena(room_for(like.dtype, tuple(like.shape)))
        return self._fetch(arena, like, call, as_returned=False)

    def wrong_by_now(self, trial: Trial, call: int) -> list[Reason]:
        """Return what is wrong with a kept output as it is by now."""
        output = self.output_now(trial, call)
        if not self._is_as_told(output, call):
            message = f"the output of call {call + 1} is not what there was when its time was told"
            return [Reason("wrong_while_timed", f"{message}, on case {self.case}", self.case)]
        return compare(output, trial, self.case)[0]

    def is_near(self, plain: torch.Tensor, call: int, most: float) -> bool:
        """Return whether a kept output lies near what the reference returns in the same precision.

        Args:
            plain: that.
            call: which output.
            most: the relative distance, by the L2 norm, that is near.
        """
        output = self.output_now(plain, call)
        if not self._is_as_told(output, call):
            return False
        if not plain.is_floating_point():
            return torch.equal(output, plain)
        distance, norm = (torch.linalg.vector_norm(each, dtype=torch.float64) for each in (output - plain, plain))
        return bool(distance <= most * norm)

    def _is_as_told(self, output: torch.Tensor, call: int) -> bool:
        return self._told is None or self._told[call : call + 1] == digests([output])

    def time(self, sets: Sequence[list[Any]], calls: int, flush_bytes: int = 0, hold_cycles: int = 0) -> Block:
        """Time calls over sets of inputs in turn; the outputs are kept."""
        self._give(sets)
        start = time.perf_counter()
        self.child.resume()
        timed = self.child.time(calls, flush_bytes, hold_cycles)
        self._told = timed.digests
        return Block(timed.times_us, (time.perf_counter() - start) * 1e6, timed.late)

    def profile(self, sets: Sequence[list[Any]], hold_cycles: int) -> Profiled:
        """Time one call over each set of inputs, and have the kernels recorded; the outputs are kept."""
        self._give(sets)
        self.child.resume()
        return self.child.profile(len(sets), hold_cycles)

    def _give(self, sets: Sequence[list[Any]]) -> None:
        """Say where the sets will be, and put them there while the child is stopped, so that none can begin early."""
        self._reserve(self.child.arena(sum(map(room_for_inputs, sets))), sets)
        self.child.give(self._placed)
        self.child.pause()
        self._fill(sets)

    def _reserve(self, arena: Arena, sets: Sequence[list[Any]]) -> None:
        # What was told is of outputs that are gone with the next call.
        self._arena, self._told = arena, None
        self._placed = [
            [
                arena.reserve(each.dtype, tuple(each.shape)) if isinstance(each, torch.Tensor) else each
                for each in inputs
            ]
            for inputs in sets
        ]

    def _fill(self, sets: Sequence[list[Any]]) -> None:
        for placed, inputs in zip(self._placed, sets, strict=True):
            for ref, given in zip(placed, inputs, strict=True):
                if isinstance(ref, TensorRef):
                    self._given(ref).copy_(given)
        # The child's kernels know nothing of this process's: all it left running on the device must be done.
        _settle(self.child.device)

    def _given(self, ref: TensorRef) -> torch.Tensor:
        assert self._arena is not None
        return self._arena.view(ref)

    def _fetch(self, arena: Arena, like: Trial | torch.Tensor, call: int, as_returned: bool) -> torch.Tensor:
        target = arena.reserve(like.dtype, tuple(like.shape))
        self.child.fetch(call, target, as_returned)
        return arena.view(target).clone()


def room_for_inputs(inputs: list[Any]) -> int:
    """Return the bytes that a set of inputs takes in an arena."""
    return sum(room_for(each.dtype, each.shape) for each in inputs if isinstance(each, torch.Tensor))


def room_for_trial(trial: Trial) -> int:
    """Return the bytes that a trial's inputs and output take in an arena."""
    return room_for_inputs(trial.inputs) + room_for(trial.dtype, trial.shape)


def most_kept_calls(trial: Trial, wanted: int) -> int:
    """Return how many calls may be made while all their outputs are kept: `wanted`, or what memory allows."""
    kept_bytes = max(trial.kept_bytes, room_for(trial.dtype, trial.shape))
    return min(wanted, max(FEWEST_KEPT_CALLS, KEPT_OUTPUT_BYTES // kept_bytes))


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype and shape hold the same bits, NaNs and signs of zeros included."""
    return torch.equal(*(each.contiguous().flatten().view(torch.uint8) for each in (first, second)))


def _settle(device: torch.device) -> None:
    """Wait for this process's kernels, and give back memory that it keeps for later: a child may need it now."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > MOST_SPARE_BYTES:
            torch.cuda.empty_cache()
