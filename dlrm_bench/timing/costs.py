"""What a call has to move and compute at least, counted on the very inputs that were timed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dlrm_bench.errors import UsageError
from dlrm_bench.inputs import row_counts
from dlrm_bench.problems import Problem
from dlrm_bench.records import Constant, Costs, ProblemCard

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"sum": sum, "len": len, "min": min, "max": max}


def evaluate_expression(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an arithmetic expression of a card: numbers, names, + - * / // **, sum, len, min and max.

    Raises:
        UsageError: anything else is in it.
    """

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(value, arguments))
        raise UsageError(f"{ast.unparse(node)!r} in {text!r} is not arithmetic over {', '.join(names)}")

    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"{text!r} is not arithmetic: {error.msg}") from error
    return value(body)


def count_costs(
    problem: Problem,
    constants: Mapping[str, Constant],
    inputs: Mapping[str, Any],
    model: torch.nn.Module,
    output_bytes: int,
) -> Costs | None:
    """Count the bytes and operations of one call.

    Args:
        problem: which problem.
        constants: the module constants in force.
        inputs: by the names of `forward`'s arguments.
        model: the reference, in the precision that is timed.
        output_bytes: size of what it returns.

    Returns:
        The costs, or `None` for a problem without a card.
    """
    card = problem.card
    if card is None:
        return None
    tensors = {name: each for name, each in inputs.items() if isinstance(each, torch.Tensor)}
    counts = row_counts(problem, constants, inputs)
    row_bytes = _row_bytes(card, constants, model) if counts else []
    fixed = output_bytes + _input_bytes(card, constants, tensors) + _parameter_bytes(card, model)
    lengths = {f"len_{name}": len(each) for name, each in tensors.items()}
    distinct = [int((each > 0).sum()) for each in counts]
    lookups = [int(each.sum()) for each in counts]
    return Costs(
        compulsory_bytes=fixed + sum(map(operator.mul, distinct, row_bytes)),
        algorithmic_bytes=fixed + sum(map(operator.mul, lookups, row_bytes)),
        flops=float(evaluate_expression(card.flops, {**constants, **lengths})),
        lookups=sum(lookups),
        distinct_rows=sum(distinct),
    )


def _row_bytes(card: ProblemCard, constants: Mapping[str, Constant], model: torch.nn.Module) -> list[int]:
    assert card.tables is not None
    columns = evaluate_expression(card.tables.columns, constants)
    rows = constants[card.tables.rows]
    count = len(rows) if isinstance(rows, list) else 1
    element = next(each.element_size() for name, each in _state(model) if name.startswith(card.tables.parameter))
    return [int(each) * element for each in (columns if isinstance(columns, list) else [columns] * count)]


def _parameter_bytes(card: ProblemCard, model: torch.nn.Module) -> int:
    prefix = card.tables.parameter if card.tables is not None else None
    return sum(each.nbytes for name, each in _state(model) if prefix is None or not name.startswith(prefix))


def _input_bytes(card: ProblemCard, constants: Mapping[str, Constant], tensors: Mapping[str, torch.Tensor]) -> float:
    total = float(sum(each.nbytes for each in tensors.values()))
    if card.bags is not None and card.bags.longest is not None:
        items, lengths = tensors[card.bags.items], tensors[card.bags.offsets].diff()
        needed = int(lengths.clamp(max=int(constants[card.bags.longest])).sum())  # type: ignore[arg-type]
        total -= items.nbytes * (1 - needed / max(1, len(items)))
    return total


def _state(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]
