"""Wrong versions of every problem, made from its reference: each must be rejected, or the problem lets mistakes pass.

A mutant is a function of a scene and returns what a kernel with one mistake would; `None` where the mistake makes no
sense for the scene's data. It is killed by one scene, of any case, in float32 or in bfloat16.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dlrm_bench.correctness.compare import compare
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.problems import Problem, load_problems
from dlrm_bench.records import Precision

PROBLEMS = load_problems()
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
FEWEST_MUTANTS = 12
ALL = set(range(1, 13))
BAGS = {1, 2, 3, 4, 5, 6, 11, 12}
LOOKUPS = {1, 2, 3, 4, 5, 6}
WEIGHTS_SEED, SEED, OTHER_SEED = 1, 2, 3


@dataclass(frozen=True)
class Scene:
    """A trial of one case in one precision, with the reference that it is judged by.

    Attributes:
        oracle: the reference, built.
        trial: inputs and right answer.
        other: another trial of the same case.
    """

    oracle: Oracle
    trial: Trial
    other: Trial

    @property
    def model(self) -> Any:
        return self.oracle.model

    @cached_property
    def named(self) -> dict[str, Any]:
        return self.oracle.named(self.trial.inputs)

    def run(self, model: Any = None, **changes: Tensor) -> Tensor:
        """Run the reference, or another model, with some inputs replaced."""
        return (model or self.model)(**{**{name: each.clone() for name, each in self.named.items()}, **changes})

    @cached_property
    def right(self) -> Tensor:
        return self.run()

    @property
    def rows(self) -> Tensor:
        """A copy of the right output as [rows, columns], for a mutant to write into."""
        return self.right.clone().reshape(-1, self.right.shape[-1] if self.right.dim() > 1 else 1)

    def shaped(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.right.shape)

    @cached_property
    def items(self) -> list[str]:
        """Names of the inputs that hold one entry an item of a bag."""
        return [name for name in ("indices", "values", "history", "sample_weights") if name in self.named]

    @cached_property
    def lengths(self) -> Tensor:
        return self.named["offsets"].diff()

    @cached_property
    def bags(self) -> Tensor:
        return torch.arange(self.lengths.numel()).repeat_interleave(self.lengths)

    @cached_property
    def places(self) -> Tensor:
        return torch.arange(self.bags.numel()) - self.named["offsets"][self.bags]

    @property
    def batch(self) -> int:
        """How many bags each table has."""
        rows = self.oracle.init_inputs[0]
        return self.lengths.numel() // (len(rows) if isinstance(rows, list) else 1)

    @cached_property
    def table_rows(self) -> Tensor:
        """How many rows the table of each lookup has."""
        rows = self.oracle.init_inputs[0]
        if isinstance(rows, int):
            return torch.full_like(self.bags, rows)
        return torch.tensor(rows).repeat_interleave(self.batch)[self.bags]

    def keep(self, kept: Tensor, model: Any = None) -> Tensor | None:
        """Run the reference, or another model, without some items of the bags."""
        if bool(kept.all()):
            return None
        lengths = torch.zeros_like(self.lengths).index_add_(0, self.bags[kept], torch.ones_like(self.bags[kept]))
        kept_items = {name: self.named[name][kept] for name in self.items}
        return self.run(model, offsets=offsets_of(lengths), **kept_items)

    def look_up(self, indices: Tensor) -> Tensor:
        """Run the reference on other rows of the same tables."""
        return self.run(indices=indices % self.table_rows)

    def altered(self, **buffers: Callable[[Tensor], Tensor]) -> Any:
        """Return a copy of the model with some parameters or buffers replaced."""
        model = copy.deepcopy(self.model)
        for name, change in buffers.items():
            getattr(model, name).data = change(getattr(model, name).data)
        return model


Mutant = Callable[[Scene], Tensor | None]
MUTANTS: dict[tuple[int, str], Mutant] = {}


def of(problems: set[int]) -> Callable[[Mutant], Mutant]:
    """Have a mutant apply to these problems."""

    def register(mutant: Mutant) -> Mutant:
        MUTANTS.update({(problem, mutant.__name__): mutant for problem in problems})
        return mutant

    return register


def offsets_of(lengths: Tensor) -> Tensor:
    return F.pad(lengths.cumsum(0), (1, 0))


# --- any output ----------------------------------------------------------------------------------


@of(ALL)
def zeros(scene: Scene) -> Tensor:
    return torch.zeros_like(scene.right)


@of(ALL)
def constant_mean(scene: Scene) -> Tensor:
    return torch.full_like(scene.right, scene.right.double().mean().nan_to_num().item())


@of(ALL - {10})
def column_means(scene: Scene) -> Tensor:
    return scene.shaped(scene.rows.double().mean(dim=0).expand_as(scene.rows).to(scene.right.dtype))


@of(ALL - {10})
def first_row_everywhere(scene: Scene) -> Tensor:
    return scene.shaped(scene.rows[:1].expand_as(scene.rows))


@of(ALL)
def inputs_reinterpreted(scene: Scene) -> Tensor | None:
    given = torch.cat([each.flatten().double() for each in scene.trial.inputs])
    copies = -(-scene.right.numel() // given.numel())
    return given.repeat(copies)[: scene.right.numel()].reshape(scene.right.shape).to(scene.right.dtype)


@of(ALL)
def rows_moved_by_one(scene: Scene) -> Tensor:
    return scene.shaped(scene.rows.roll(1, 0))


@of(ALL)
def last_row_zero(scene: Scene) -> Tensor:
    rows = scene.rows
    rows[-1:] = 0
    return scene.shaped(rows)


@of(ALL)
def first_row_zero(scene: Scene) -> Tensor:
    rows = scene.rows
    rows[:1] = 0
    return scene.shaped(rows)


@of(ALL - {9, 10})
def last_column_zero(scene: Scene) -> Tensor:
    rows = scene.rows
    rows[:, -1] = 0
    return scene.shaped(rows)


@of(ALL - {9, 10})
def halves_swapped(scene: Scene) -> Tensor:
    return scene.shaped(scene.rows.roll(scene.rows.shape[1] // 2, 1))


@of(ALL - {10})
def one_row_negated(scene: Scene) -> Tensor:
    rows = scene.rows
    rows[rows.double().norm(dim=1).argmax()] *= -1
    return scene.shaped(rows)


@of(ALL)
def one_element_wrong(scene: Scene) -> Tensor:
    rows = scene.rows.flatten()
    if rows.numel():
        rows[rows.double().abs().argmax()] //= 2
    return scene.shaped(rows)


@of(ALL)
def stale(scene: Scene) -> Tensor | None:
    if scene.other.shape != scene.trial.shape:
        return None
    return scene.run(**scene.oracle.named(scene.other.inputs))


@of(ALL - {10})
def one_percent_more(scene: Scene) -> Tensor:
    return scene.right * 1.01


@of(ALL - {10})
def one_percent_less(scene: Scene) -> Tensor:
    return scene.right * 0.99


@of(ALL - {10})
def rounded_to_four_bits(scene: Scene) -> Tensor:
    mantissa, exponent = torch.frexp(scene.right.double())
    return torch.ldexp((mantissa * 16).round() / 16, exponent).to(scene.right.dtype)


@of(ALL - {10})
def rounded_to_bfloat16(scene: Scene) -> Tensor:
    return scene.right.bfloat16().to(scene.right.dtype)


@of(ALL - {10})
def rounded_to_tf32(scene: Scene) -> Tensor:
    mantissa, exponent = torch.frexp(scene.right.double())
    return torch.ldexp((mantissa * 2**11).round() / 2**11, exponent).to(scene.right.dtype)


# --- bags ----------------------------------------------------------------------------------------


@of(BAGS)
def longest_percent_of_bags_dropped(scene: Scene) -> Tensor | None:
    dropped = scene.lengths.topk(max(1, scene.lengths.numel() // 100)).indices
    return scene.keep(~torch.isin(scene.bags, dropped))


@of(BAGS)
def first_200_items_only(scene: Scene) -> Tensor | None:
    return scene.keep(scene.places < 200)


@of(BAGS)
def last_item_of_a_bag_missing(scene: Scene) -> Tensor | None:
    return scene.keep(scene.places < scene.lengths[scene.bags] - 1)


@of(BAGS)
def first_item_of_a_bag_missing(scene: Scene) -> Tensor | None:
    return scene.keep(scene.places > 0)


@of(BAGS)
def last_bag_missing(scene: Scene) -> Tensor | None:
    return scene.keep(scene.bags < scene.lengths.numel() - 1)


@of(BAGS)
def a_bag_ends_one_item_late(scene: Scene) -> Tensor:
    offsets = scene.named["offsets"]
    ends_of_tables = offsets[-(-torch.arange(offsets.numel()) // scene.batch) * scene.batch]
    return scene.run(offsets=(offsets + 1).minimum(ends_of_tables))


@of(BAGS)
def no_bag_is_empty(scene: Scene) -> Tensor:
    """Bags are numbered by counting those that are not empty, in each table anew."""
    tables = scene.lengths.view(-1, scene.batch)
    order = (tables == 0).sort(dim=1, stable=True).indices
    return scene.run(offsets=offsets_of(tables.gather(1, order).flatten()))


@of(LOOKUPS)
def no_row_comes_twice_in_a_bag(scene: Scene) -> Tensor | None:
    pairs = scene.bags * (scene.table_rows.amax() if scene.bags.numel() else 1) + scene.named["indices"]
    order = pairs.sort(stable=True)
    first = torch.ones_like(pairs, dtype=torch.bool)
    first[order.indices[1:]] = order.values.diff() != 0
    return scene.keep(first)


@of(LOOKUPS)
def rows_of_a_bag_lie_side_by_side(scene: Scene) -> Tensor | None:
    if not scene.bags.numel():
        return None
    first = scene.named["indices"][scene.named["offsets"][scene.bags]]
    return scene.look_up(first + scene.places)


@of(LOOKUPS)
def next_row(scene: Scene) -> Tensor:
    return scene.look_up(scene.named["indices"] + 1)


@of(LOOKUPS)
def last_row_of_a_table_out_of_reach(scene: Scene) -> Tensor:
    return scene.run(indices=scene.named["indices"].minimum((scene.table_rows - 2).clamp(min=0)))


@of(LOOKUPS)
def row_ids_of_8_bits(scene: Scene) -> Tensor:
    return scene.look_up(scene.named["indices"] % 256)


@of({1, 5, 12})
def mean_in_place_of_sum(scene: Scene) -> Tensor:
    return scene.right / scene.lengths.clamp(min=1).unsqueeze(1).to(scene.right.dtype)


# --- several tables ------------------------------------------------------------------------------


def by_table(scene: Scene, lengths: Tensor) -> Tensor:
    """One number a bag, laid out as the output's columns of several tables of one width."""
    tables = len(scene.oracle.init_inputs[0])
    return lengths.view(tables, -1).t().repeat_interleave(scene.right.shape[1] // tables, dim=1)


@of({2})
def means_in_place_of_sums(scene: Scene) -> Tensor:
    return scene.right / by_table(scene, scene.lengths.clamp(min=1)).to(scene.right.dtype)


@of({3})
def sums_in_place_of_means(scene: Scene) -> Tensor:
    return scene.right * by_table(scene, scene.lengths).to(scene.right.dtype)


@of({3})
def means_over_one_more(scene: Scene) -> Tensor:
    lengths = by_table(scene, scene.lengths).double()
    return (scene.right.double() * lengths / (lengths + 1)).to(scene.right.dtype)


@of({2, 3})
def tables_one_row_early(scene: Scene) -> Tensor:
    return scene.run(scene.altered(first_rows=lambda rows: (rows - 1).clamp(min=0)))


@of({2, 3})
def first_table_everywhere(scene: Scene) -> Tensor:
    return scene.run(scene.altered(first_rows=torch.zeros_like))


@of({2, 3})
def tables_below_one_another(scene: Scene) -> Tensor:
    tables = len(scene.oracle.init_inputs[0])
    batch, columns = scene.right.shape
    pooled = scene.right.view(batch, tables, columns // tables).transpose(0, 1)
    return pooled.reshape(batch, columns)


@of({4})
def sample_weights_ignored(scene: Scene) -> Tensor:
    return scene.run(sample_weights=torch.ones_like(scene.named["sample_weights"]))


@of({4})
def sample_weights_of_the_next_lookup(scene: Scene) -> Tensor:
    return scene.run(sample_weights=scene.named["sample_weights"].roll(1))


@of({4})
def sample_weights_without_sign(scene: Scene) -> Tensor:
    return scene.run(sample_weights=scene.named["sample_weights"].abs())


@of({4})
def rows_sorted_without_their_weights(scene: Scene) -> Tensor:
    order = (scene.bags * 1_000_000 + scene.named["indices"]).sort().indices
    return scene.run(indices=scene.named["indices"][order])


@of({4})
def widths_rounded_up_to_four(scene: Scene) -> Tensor | None:
    """Each table starts where it would if the widths before it were multiples of four."""
    output = torch.zeros_like(scene.right)
    start = shifted = 0
    for dim in scene.oracle.init_inputs[1]:
        end = min(shifted + dim, output.shape[1])
        output[:, shifted:end] = scene.right[:, start : start + end - shifted]
        start, shifted = start + dim, shifted + -(-dim // 4) * 4
    return output


# --- 8-bit rows ----------------------------------------------------------------------------------


def with_headers(scene: Scene, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the reference with each row's float16 scale and bias changed."""

    def change_rows(rows: Tensor) -> Tensor:
        changed = change(rows[:, :4].contiguous().view(torch.float16))
        return torch.cat([changed.half().contiguous().view(torch.uint8), rows[:, 4:]], dim=1)

    return scene.altered(rows=change_rows)


def without_bias(scene: Scene) -> Any:
    return with_headers(scene, lambda pair: pair * torch.tensor([1, 0]))


@of({5})
def bias_ignored(scene: Scene) -> Tensor:
    return scene.run(without_bias(scene))


@of({5})
def bias_once_a_bag(scene: Scene) -> Tensor | None:
    firsts = scene.keep(scene.places == 0)
    if firsts is None:
        return None
    return scene.run(without_bias(scene)) + firsts - scene.keep(scene.places == 0, without_bias(scene))


@of({5})
def bias_of_the_next_row(scene: Scene) -> Tensor:
    return scene.run(with_headers(scene, lambda pair: torch.stack([pair[:, 0], pair[:, 1].roll(1)], dim=1)))


@of({5})
def scale_of_the_first_row(scene: Scene) -> Tensor:
    return scene.run(with_headers(scene, lambda pair: torch.stack([pair[:1, 0].expand(len(pair)), pair[:, 1]], dim=1)))


@of({5})
def subnormal_scales_are_zero(scene: Scene) -> Tensor:
    smallest = torch.finfo(torch.float16).tiny
    return scene.run(with_headers(scene, lambda pair: torch.where(pair.abs() < smallest, 0, pair)))


@of({5})
def codes_with_a_sign(scene: Scene) -> Tensor:
    return scene.run(scene.altered(rows=lambda rows: torch.cat([rows[:, :4], rows[:, 4:] ^ 0x80], dim=1)))


@of({5})
def codes_four_bytes_early(scene: Scene) -> Tensor:
    return scene.run(scene.altered(rows=lambda rows: torch.cat([rows[:, :4], rows[:, :-4]], dim=1)))


# --- Adagrad -------------------------------------------------------------------------------------


def adagrad(
    scene: Scene,
    *,
    square: Callable[[Tensor], Tensor] = lambda total: total.square().mean(dim=1),
    denominator: Callable[[Tensor, float], Tensor] = lambda momentum, eps: momentum.sqrt() + eps,
    coalesced: bool = True,
) -> Tensor:
    """The reference's formula, with parts to be replaced."""
    model, named = scene.model, scene.named
    lookups = named["gradient"].float()[scene.bags]
    weight, momentum = model.weight.float(), model.momentum.float()
    total = torch.zeros_like(weight).index_add_(0, named["indices"], lookups)
    squares = square(total)
    if not coalesced:
        squares = torch.zeros_like(momentum).index_add_(0, named["indices"], square(lookups))
    grown = momentum + squares
    step = model.learning_rate * total / denominator(grown, model.eps).unsqueeze(1)
    return torch.cat([weight - step, grown.unsqueeze(1)], dim=1).to(scene.right.dtype)


@of({6})
def momentum_not_updated(scene: Scene) -> Tensor:
    return torch.cat([scene.right[:, :-1], scene.model.momentum.unsqueeze(1)], dim=1)


@of({6})
def weights_not_updated(scene: Scene) -> Tensor:
    return torch.cat([scene.model.weight.detach(), scene.right[:, -1:]], dim=1)


@of({6})
def step_by_the_old_momentum(scene: Scene) -> Tensor:
    old = scene.model.momentum.float()
    return adagrad(scene, denominator=lambda momentum, eps: old.sqrt() + eps).nan_to_num()


@of({6})
def duplicates_not_coalesced(scene: Scene) -> Tensor:
    return adagrad(scene, coalesced=False)


@of({6})
def squares_added_up(scene: Scene) -> Tensor:
    return adagrad(scene, square=lambda total: total.square().sum(dim=1))


@of({6})
def square_of_the_mean(scene: Scene) -> Tensor:
    return adagrad(scene, square=lambda total: total.mean(dim=1).square())


@of({6})
def eps_inside_the_root(scene: Scene) -> Tensor:
    return adagrad(scene, denominator=lambda momentum, eps: (momentum + eps).sqrt())


@of({6})
def eps_left_out(scene: Scene) -> Tensor:
    return adagrad(scene, denominator=lambda momentum, eps: momentum.sqrt().clamp(min=1e-30))


@of({6})
def a_momentum_an_element(scene: Scene) -> Tensor:
    first = scene.right[:, :-1]
    total = adagrad(scene, denominator=lambda momentum, eps: torch.ones_like(momentum))[:, :-1].float()
    total = (scene.model.weight.float() - total) / scene.model.learning_rate
    momentum = scene.model.momentum.float().unsqueeze(1) + total.square()
    step = scene.model.learning_rate * total / (momentum.sqrt() + scene.model.eps)
    return torch.cat([(scene.model.weight.float() - step).to(first.dtype), scene.right[:, -1:]], dim=1)


@of({6})
def step_upwards(scene: Scene) -> Tensor:
    return torch.cat([2 * scene.model.weight.detach() - scene.right[:, :-1], scene.right[:, -1:]], dim=1)


@of({6})
def rows_without_lookups_are_zero(scene: Scene) -> Tensor:
    touched = torch.zeros(len(scene.right), 1, dtype=scene.right.dtype)
    touched[scene.named["indices"]] = 1
    return scene.right * touched


# --- dot interaction -----------------------------------------------------------------------------


def triangle(scene: Scene, rows: Tensor, columns: Tensor) -> Tensor:
    """Run the dot interaction with its pairs in another order."""
    return scene.run(scene.altered(rows=lambda _: rows, columns=lambda _: columns))


@of({7})
def pairs_of_the_upper_triangle(scene: Scene) -> Tensor:
    features = scene.named["sparse"].shape[1] + 1
    return triangle(scene, *torch.triu_indices(features, features, offset=1))


@of({7})
def pairs_column_by_column(scene: Scene) -> Tensor:
    features = scene.named["sparse"].shape[1] + 1
    columns, rows = torch.triu_indices(features, features, offset=1)
    return triangle(scene, rows, columns)


@of({7})
def pairs_reversed(scene: Scene) -> Tensor:
    return triangle(scene, scene.model.rows.flip(0), scene.model.columns.flip(0))


@of({7})
def pairs_with_the_diagonal(scene: Scene) -> Tensor:
    features = scene.named["sparse"].shape[1] + 1
    rows, columns = torch.tril_indices(features, features)
    return triangle(scene, rows[: scene.model.rows.numel()], columns[: scene.model.rows.numel()])


@of({7})
def last_pair_missing(scene: Scene) -> Tensor:
    rows = scene.rows
    rows[:, -1] = rows[:, -2]
    return rows


@of({7})
def last_feature_missing(scene: Scene) -> Tensor:
    sparse = scene.named["sparse"].clone()
    sparse[:, -1] = 0
    return scene.run(sparse=sparse)


@of({7})
def last_dimension_missing(scene: Scene) -> Tensor:
    dense, sparse = scene.named["dense"].clone(), scene.named["sparse"].clone()
    dense[:, -1] = sparse[:, :, -1] = 0
    output = scene.run(dense=dense, sparse=sparse)
    output[:, : dense.shape[1]] = scene.named["dense"]
    return output


@of({7})
def dense_missing_in_front(scene: Scene) -> Tensor:
    output = scene.right.clone()
    output[:, : scene.named["dense"].shape[1]] = 0
    return output


@of({7})
def dense_missing_in_pairs(scene: Scene) -> Tensor:
    output = scene.run(dense=torch.zeros_like(scene.named["dense"]))
    output[:, : scene.named["dense"].shape[1]] = scene.named["dense"]
    return output


@of({7})
def dense_behind_the_pairs(scene: Scene) -> Tensor:
    return scene.right.roll(-scene.named["dense"].shape[1], 1)


# --- cross layers --------------------------------------------------------------------------------


def cross(
    scene: Scene,
    *,
    layers: slice = slice(None),
    first: bool = True,
    residual: float = 1.0,
    bias: float = 1.0,
    rounded: Callable[[Tensor], Tensor] = lambda each: each,
) -> Tensor:
    """The reference's formula, with parts to be replaced."""
    x = features = scene.named["features"]
    model = scene.model
    for v, w, b in list(zip(model.v, model.w, model.b, strict=True))[layers]:
        inner = rounded(F.linear(rounded(x), rounded(v)))
        x = (features if first else x) * (F.linear(inner, rounded(w)) + bias * b) + residual * x
    return x


@of({8})
def bias_missing(scene: Scene) -> Tensor:
    return cross(scene, bias=0.0)


@of({8})
def bias_subtracted(scene: Scene) -> Tensor:
    return cross(scene, bias=-1.0)


@of({8})
def last_layer_missing(scene: Scene) -> Tensor:
    return cross(scene, layers=slice(0, -1))


@of({8})
def first_layer_missing(scene: Scene) -> Tensor:
    return cross(scene, layers=slice(1, None))


@of({8})
def layers_backwards(scene: Scene) -> Tensor:
    return cross(scene, layers=slice(None, None, -1))


@of({8})
def residual_missing(scene: Scene) -> Tensor:
    return cross(scene, residual=0.0)


@of({8})
def product_with_the_last_layer(scene: Scene) -> Tensor:
    return cross(scene, first=False)


@of({8})
def products_in_bfloat16(scene: Scene) -> Tensor:
    return cross(scene, rounded=lambda each: each.bfloat16().to(each.dtype))


@of({8})
def products_in_float8(scene: Scene) -> Tensor:
    return cross(scene, rounded=lambda each: each.to(torch.float8_e4m3fn).to(each.dtype))


# --- factorization machine -----------------------------------------------------------------------


@of({9})
def square_of_sum_only(scene: Scene) -> Tensor:
    return 0.5 * scene.named["embeddings"].sum(dim=1).square().sum(dim=1, keepdim=True)


@of({9})
def sum_of_squares_only(scene: Scene) -> Tensor:
    return 0.5 * scene.named["embeddings"].square().sum(dim=(1, 2)).unsqueeze(1)


@of({9})
def not_halved(scene: Scene) -> Tensor:
    return 2 * scene.right


@of({9})
def squares_added(scene: Scene) -> Tensor:
    return square_of_sum_only(scene) + sum_of_squares_only(scene)


@of({9})
def last_field_missing(scene: Scene) -> Tensor:
    return scene.run(embeddings=scene.named["embeddings"][:, :-1])


@of({9})
def last_dimension_of_a_field_missing(scene: Scene) -> Tensor:
    return scene.run(embeddings=scene.named["embeddings"][:, :, :-1])


@of({9})
def neighbouring_pairs_only(scene: Scene) -> Tensor:
    embeddings = scene.named["embeddings"]
    return (embeddings[:, 1:] * embeddings[:, :-1]).sum(dim=(1, 2)).unsqueeze(1)


@of({9})
def terms_in_bfloat16(scene: Scene) -> Tensor:
    short = scene.named["embeddings"].bfloat16()
    terms = short.sum(dim=1).square() - short.square().sum(dim=1)
    return 0.5 * terms.sum(dim=1, keepdim=True).to(scene.right.dtype)


@of({9})
def fields_and_dimensions_exchanged(scene: Scene) -> Tensor:
    return scene.run(embeddings=scene.named["embeddings"].transpose(1, 2))


# --- keyed jagged permute ------------------------------------------------------------------------


@of({10})
def inverse_permutation(scene: Scene) -> Tensor:
    return scene.run(permutation=scene.named["permutation"].argsort())


@of({10})
def permutation_reversed(scene: Scene) -> Tensor:
    return scene.run(permutation=scene.named["permutation"].flip(0))


@of({10})
def lengths_permuted_beforehand(scene: Scene) -> Tensor:
    return scene.run(lengths=scene.named["lengths"][scene.named["permutation"]])


@of({10})
def keys_of_one_length(scene: Scene) -> Tensor:
    values, keys = scene.named["values"], len(scene.named["lengths"])
    runs = values.tensor_split(keys)
    return torch.cat([runs[key] for key in scene.named["permutation"].tolist()])


@of({10})
def last_sample_of_a_key_missing(scene: Scene) -> Tensor:
    lengths, permutation = scene.named["lengths"], scene.named["permutation"]
    output = scene.right.clone()
    ends = lengths.sum(dim=1)[permutation].cumsum(0)
    for end, count in zip(ends.tolist(), lengths[permutation, -1].tolist(), strict=True):
        output[end - count : end] = 0
    return output


@of({10})
def ids_of_32_bits(scene: Scene) -> Tensor:
    return scene.right.int().long()


@of({10})
def ids_through_float64(scene: Scene) -> Tensor:
    return scene.right.double().long()


@of({10})
def ids_through_float32(scene: Scene) -> Tensor:
    return scene.right.float().double().clamp(max=2.0**62).long()


@of({10})
def a_key_backwards(scene: Scene) -> Tensor:
    return torch.cat([run.flip(0) for run in scene.right.tensor_split(scene.named["lengths"].shape[0])])


@of({10})
def no_more_than_100_000_values(scene: Scene) -> Tensor:
    output = scene.right.clone()
    output[100_000:] = 0
    return output


# --- jagged to padded ----------------------------------------------------------------------------


@of({11})
def padding_of_ones(scene: Scene) -> Tensor:
    padding = torch.arange(scene.right.shape[1]) >= scene.lengths.unsqueeze(1)
    return torch.where(padding.unsqueeze(2), 1.0, scene.right)


@of({11})
def padding_repeats_the_last_item(scene: Scene) -> Tensor | None:
    if not scene.bags.numel():
        return None
    columns = torch.arange(scene.right.shape[1]).minimum((scene.lengths - 1).clamp(min=0).unsqueeze(1))
    return scene.right.gather(1, columns.unsqueeze(2).expand_as(scene.right))


@of({11})
def cut_one_item_early(scene: Scene) -> Tensor:
    return scene.shaped(torch.cat([scene.right[:, :-1], torch.zeros_like(scene.right[:, -1:])], dim=1))


@of({11})
def last_items_in_place_of_first(scene: Scene) -> Tensor | None:
    return scene.keep(scene.places >= (scene.lengths - scene.right.shape[1])[scene.bags])


@of({11})
def padding_in_front(scene: Scene) -> Tensor:
    width = scene.right.shape[1]
    columns = torch.arange(width) - (width - scene.lengths.clamp(max=width)).unsqueeze(1)
    moved = scene.right.gather(1, columns.clamp(min=0).unsqueeze(2).expand_as(scene.right))
    return moved * (columns >= 0).unsqueeze(2).to(moved.dtype)


@of({11})
def bags_laid_end_to_end(scene: Scene) -> Tensor:
    output = torch.zeros_like(scene.right).flatten()
    values = scene.named["values"].flatten()[: output.numel()]
    output[: values.numel()] = values
    return output.view(scene.right.shape)


# --- target attention ----------------------------------------------------------------------------


def attention(
    scene: Scene,
    *,
    difference: float = 1.0,
    product: float = 1.0,
    activation: Callable[[Tensor], Tensor] = torch.sigmoid,
    biases: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Tensor:
    """The reference's formula, with parts to be replaced."""
    model, history = scene.model, scene.named["history"]
    query = scene.named["target"][scene.bags]
    hidden = torch.cat([query, history, difference * (query - history), product * query * history], dim=1)
    hidden = activation(F.linear(hidden, model.w1, biases[0] * model.b1))
    hidden = activation(F.linear(hidden, model.w2, biases[1] * model.b2))
    scores = F.linear(hidden, model.w3, biases[2] * model.b3)
    return torch.zeros_like(scene.right).index_add_(0, scene.bags, scores * history)


@of({12})
def difference_the_other_way_round(scene: Scene) -> Tensor:
    return attention(scene, difference=-1.0)


@of({12})
def product_missing(scene: Scene) -> Tensor:
    return attention(scene, product=0.0)


@of({12})
def rectified(scene: Scene) -> Tensor:
    return attention(scene, activation=torch.relu)


@of({12})
def first_bias_missing(scene: Scene) -> Tensor:
    return attention(scene, biases=(0.0, 1.0, 1.0))


@of({12})
def second_bias_missing(scene: Scene) -> Tensor:
    return attention(scene, biases=(1.0, 0.0, 1.0))


@of({12})
def last_bias_missing(scene: Scene) -> Tensor:
    return attention(scene, biases=(1.0, 1.0, 0.0))


@of({12})
def target_of_the_next_sample(scene: Scene) -> Tensor:
    return scene.run(target=scene.named["target"].roll(1, 0))


@of({12})
def scores_ignored(scene: Scene) -> Tensor:
    return torch.zeros_like(scene.right).index_add_(0, scene.bags, scene.named["history"])


@of({12})
def last_hidden_unit_missing(scene: Scene) -> Tensor:
    return scene.run(scene.altered(w3=lambda weight: F.pad(weight[:, :-1], (0, 1))))


# --- the gate ------------------------------------------------------------------------------------


@cache
def scene_of(number: int, case: str, precision: Precision, where: torch.device) -> Scene:
    oracle = Oracle(PROBLEMS.find(number), "small", case, precision, where)
    oracle.rebuild(WEIGHTS_SEED)
    return Scene(oracle, oracle.trial(SEED), oracle.trial(OTHER_SEED))


def scenes(problem: Problem, where: torch.device) -> Iterator[Scene]:
    for precision in PRECISIONS:
        for case in problem.cases:
            yield scene_of(problem.id, case, precision, where)


@torch.no_grad()
def rejected(mutant: Mutant, scene: Scene) -> bool:
    with scene.right.device:
        output = mutant(scene)
    if output is None:
        return False
    assert (output.dtype, output.shape) == (scene.trial.dtype, scene.trial.shape)
    return bool(compare(output, scene.trial, scene.oracle.case)[0])


def mutants_of(problem: Problem) -> Mapping[str, Mutant]:
    return {name: mutant for (number, name), mutant in MUTANTS.items() if number == problem.id}


@pytest.mark.parametrize(
    ("problem", "mutant"),
    [
        pytest.param(each, mutant, id=f"{each.name}-{name}")
        for each in PROBLEMS
        for name, mutant in mutants_of(each).items()
    ],
)
def test_a_mutant_is_rejected(problem: Problem, mutant: Mutant, where: torch.device) -> None:
    assert any(rejected(mutant, scene) for scene in scenes(problem, where))


def test_the_page_names_what_has_not_run_on_an_h200(
    run_on_an_h200: Callable[[str], set[str]], said_not_to_have_run: set[str]
) -> None:
    mutants = {f"{problem.name}-{name}" for problem in PROBLEMS for name in mutants_of(problem)}
    missing = {each.partition("-")[2] for each in mutants - run_on_an_h200("test_a_mutant_is_rejected")}
    assert missing == said_not_to_have_run & {name for _, name in MUTANTS}


def test_the_reference_is_accepted(problem: Problem, where: torch.device) -> None:
    assert not any(rejected(lambda scene: scene.right, scene) for scene in scenes(problem, where))


def test_every_problem_has_enough_mutants(problem: Problem) -> None:
    assert len(mutants_of(problem)) >= FEWEST_MUTANTS
