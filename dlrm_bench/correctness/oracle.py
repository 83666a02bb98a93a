"""The oracle: the reference model in float64, on the very numbers that a submission is given."""

from __future__ import annotations

import contextlib
import copy
import inspect
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from dlrm_bench.correctness.metrics import UNIT_ROUNDOFF, Yardstick
from dlrm_bench.correctness.variations import VARIATIONS, vary
from dlrm_bench.errors import UnfitReferenceError
from dlrm_bench.precisions import DTYPES
from dlrm_bench.problems import Problem
from dlrm_bench.records import Metrics, Precision, Size

MOST_DIFFERENCE = 0.02
"""Relative difference of two outputs for the same inputs, beyond which they are random; sums in another order differ
less."""
FEW_ELEMENTS = 1 << 10
"""Of an output, below which one run of the reference does not tell how large its errors can be."""
NEIGHBOURS = 8
"""How many sets of inputs are tried beside a set whose output has few elements."""
DRAWS_OF_A_VARIATION = 3
BETWEEN_DRAWS = 1_000_003
"""Of their seeds, so that no draw has a seed that was given for another trial; a CPU minds the lower 32 bits alone."""
MOST_OWN_ERROR = 0.1
"""Relative error of the reference beyond which it is no measure of what an honest kernel may be off by."""
NO_ERROR = Metrics(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Trial:
    """One set of inputs with the right answer.

    Attributes:
        inputs: what `forward` is given, in order, on the device, cast to the precision.
        dtype: dtype that the output must have.
        shape: shape that the output must have.
        exact: the output itself where it must match to the bit, else `None`.
        yardstick: the float64 output and its scales.
        thresholds: what the metrics of an honest kernel stay below.
        precision: what the submission is asked to compute in.
        kept_bytes: memory that the reference's own output keeps: a mean may keep that of all it is the mean of.
        not_finite: the float64 output, if some of it is infinite or no number; the yardstick has zeros there.
        other: what the reference itself returns, if that is so far from the float64 output that an honest kernel may
            be near the one or the other; the thresholds then allow for no error of the reference.
    """

    inputs: list[Any]
    dtype: torch.dtype
    shape: tuple[int, ...]
    exact: torch.Tensor | None
    yardstick: Yardstick
    thresholds: Metrics
    precision: Precision
    kept_bytes: int
    not_finite: torch.Tensor | None = None
    other: Yardstick | None = None


class Oracle:
    """Makes trials of one problem, size, case and precision; each `rebuild` draws other weights.

    The reference is run twice on every set of inputs: in float64, which gives the right answer, and in the precision
    itself, which tells how far an honest kernel may be off.
    """

    def __init__(self, problem: Problem, size: Size, case: str, precision: Precision, device: torch.device) -> None:
        self.case = case
        self.precision: Precision = precision
        self._card = problem.card
        self._constants = problem.constants(size, case)
        self._device = device
        self._names = problem.namespace(size, case)
        with torch.device(device):
            self.init_inputs: list[Any] = self._names["get_init_inputs"]()
        self._arguments = list(inspect.signature(self._names["Model"].forward).parameters)[1:]
        self._reference: Any = None
        self._double_model: Any = None

    def rebuild(self, seed: int) -> None:
        """Construct the reference under `seed`, as a submission's `ModelNew` is."""
        self._reference = self._double_model = None
        with torch.device(self._device):
            seed_torch(seed)
            model = self._names["Model"](*self.init_inputs)
        self._reference = model.to(device=self._device, dtype=DTYPES[self.precision])

    def draw_inputs(self, seed: int) -> list[Any]:
        """Draw a set of inputs under `seed`, on the device, floating ones cast to the precision."""
        with torch.device(self._device):
            seed_torch(seed)
            drawn = self._names["get_inputs"]()
            varied = vary(self.case, drawn) if self._card is None else drawn
        return [self._cast(each) for each in varied]

    def trial(self, seed: int) -> Trial:
        """Draw inputs under `seed` and work out the right answer and the thresholds.

        Where a variation's inputs happen to leave of the answer little but rounding, others are drawn.

        Raises:
            UnfitReferenceError: as `answer` does, on the last draw.
        """
        draws = DRAWS_OF_A_VARIATION if self.case in VARIATIONS else 1
        for earlier in range(draws - 1):
            with contextlib.suppress(UnfitReferenceError):
                return self.answer(self.draw_inputs(seed + earlier * BETWEEN_DRAWS))
        return self.answer(self.draw_inputs(seed + (draws - 1) * BETWEEN_DRAWS))

    @torch.no_grad()
    def plain(self, inputs: list[Any]) -> torch.Tensor:
        """Return what the reference returns in the precision itself."""
        return self._in_precision(inputs)

    @torch.no_grad()
    def answer(self, inputs: list[Any]) -> Trial:
        """Work out the right answer and the thresholds for a set of inputs.

        Raises:
            UnfitReferenceError: the reference returns something else than one tensor, or, of a problem without a card,
                numbers at random, or numbers that its own rounding swamps on inputs other than the problem's, or to a
                constant.
        """
        returned = self._in_precision(inputs)
        kept_bytes, plain, right = returned.untyped_storage().nbytes(), _alone(returned), self._in_double(inputs)
        del returned
        again = _alone(self._in_precision(inputs)) if self._card is None else plain
        exact = plain if (self._card is not None and self._card.exact) or not plain.is_floating_point() else None
        not_finite = None if _is_finite(right) else right
        if not_finite is not None:
            strange = ~right.isfinite()
            right, plain, again = (each.masked_fill(strange, 0) for each in (right, plain, again))
        yardstick = Yardstick.of(right)
        own_error = yardstick.measure(plain)
        other = None
        if exact is None and self._card is None:
            _require_meaning(plain, again)
            if own_error.relative_l2 > MOST_OWN_ERROR:
                other, own_error = self._swamped(plain, own_error), NO_ERROR
        if exact is None and not_finite is None and plain.numel() < FEW_ELEMENTS:
            own_error = self._largest_nearby(inputs, own_error)
        thresholds = yardstick.thresholds(own_error, self.precision, self._terms(inputs))
        shape = tuple(plain.shape)
        return Trial(
            inputs, plain.dtype, shape, exact, yardstick, thresholds, self.precision, kept_bytes, not_finite, other
        )

    def _swamped(self, plain: torch.Tensor, own_error: Metrics) -> Yardstick:
        """Return what the reference returns as a yardstick of its own; a constant is none."""
        if self.case in VARIATIONS or bool((plain == plain.flatten()[0]).all()):
            raise UnfitReferenceError(
                f"its reference is off by {own_error.relative_l2:.2g} of the right answer in this precision: what is "
                "left of that is rounding"
            )
        return Yardstick.of(plain)

    def _in_precision(self, inputs: list[Any]) -> torch.Tensor:
        # TF32 would be taken for what float32 can do.
        with torch.backends.cudnn.flags(allow_tf32=False):
            plain = self._reference(*_copies(inputs))
        if not isinstance(plain, torch.Tensor):
            raise UnfitReferenceError(f"its reference returns {type(plain).__name__}, not one tensor")
        return plain

    def _in_double(self, inputs: list[Any]) -> torch.Tensor:
        if self._double_model is None:
            self._double_model = copy.deepcopy(self._reference).double()
        return _alone(self._double_model(*map(_double_copy, inputs)))

    def _largest_nearby(self, inputs: list[Any], error: Metrics) -> Metrics:
        """Return the largest of the reference's own errors, on these inputs and on some a rounding away.

        On few numbers one error is a lottery: where little is left of large terms, or one element is made of far
        larger ones than the others, it may be nothing, and many roundings for the next kernel that adds in another
        order. What a neighbour adds is bounded, so that no draw lets an output pass that has nothing to do with the
        right one.
        """
        errors = [error]
        for _ in range(NEIGHBOURS):
            near = [_neighbour(each, self.precision) for each in inputs]
            right = self._in_double(near)
            if _is_finite(right):
                errors.append(Yardstick.of(right).measure(self._in_precision(near)))
        own, *nearby = map(msgspec.structs.astuple, errors)
        largest = [min(MOST_OWN_ERROR, max(values)) for values in zip(own, *nearby, strict=True)]
        return Metrics(*map(max, own, largest))

    def named(self, inputs: list[Any]) -> dict[str, Any]:
        """Return a set of inputs by the names of `forward`'s arguments."""
        return dict(zip(self._arguments, inputs, strict=True))

    @property
    def may_cache_weights(self) -> bool:
        """Whether a submission may keep what it has made of the weights; nobody says so of a foreign problem."""
        return self._card is None or self._card.caches_weights

    @property
    def model(self) -> Any:
        """The reference in the precision."""
        return self._reference

    def _terms(self, inputs: list[Any]) -> int:
        if self._card is None or self._card.bags is None:
            return 1
        lengths = self.named(inputs)[self._card.bags.offsets].diff()
        return int(lengths.max()) if lengths.numel() else 1

    def _cast(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        placed = value.to(self._device)
        return placed.to(DTYPES[self.precision]) if placed.is_floating_point() else placed


def seed_torch(seed: int) -> None:
    """Seed as `torch.manual_seed` does, but only the devices that are there.

    For every other kind of device that one notes the call and its stack, which takes longer than many a draw.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def _require_meaning(plain: torch.Tensor, again: torch.Tensor) -> None:
    if Yardstick.of(plain).measure(again).relative_l2 > MOST_DIFFERENCE:
        raise UnfitReferenceError("its reference returns something else each time: random numbers cannot be judged")


def _neighbour(value: Any, precision: Precision) -> Any:
    """Return a value as it is, or a tensor of floating numbers each moved by a rounding, up, down or not at all."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    steps = torch.randint(-1, 2, value.shape, dtype=torch.int8, device=value.device).to(value.dtype)
    return value * steps.mul_(2 * UNIT_ROUNDOFF[precision]).add_(1)


def _is_finite(tensor: torch.Tensor) -> bool:
    """Return whether all elements are finite, without a mask as large as the tensor."""
    return not tensor.is_floating_point() or not tensor.numel() or bool(torch.stack(tensor.aminmax()).isfinite().all())


def _double_copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that keeps no more memory than it takes."""
    return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor


def _copies(inputs: list[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
