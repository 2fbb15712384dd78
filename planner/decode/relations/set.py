"""Decodes `SetRel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from ... import ir
from ...ir.types import Type
from .. import poison
from ..comparing import either_nullable, same_type
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def _primary(types: Sequence[Type]) -> Type:
    return types[0]


def _any_nullable(types: Sequence[Type]) -> Type:
    return reduce(either_nullable, types)


def _all_nullable(types: Sequence[Type]) -> Type:
    return replace(types[0], nullable=all(type_.nullable for type_ in types))


def _primary_and_any(types: Sequence[Type]) -> Type:
    return replace(types[0], nullable=types[0].nullable and any(type_.nullable for type_ in types[1:]))


_OPERATIONS: Final[dict[int, tuple[ir.SetOperation, Callable[[Sequence[Type]], Type]]]] = {
    1: (ir.SetOperation.MINUS_PRIMARY, _primary),
    7: (ir.SetOperation.MINUS_PRIMARY_ALL, _primary),
    2: (ir.SetOperation.MINUS_MULTISET, _primary),
    3: (ir.SetOperation.INTERSECTION_PRIMARY, _primary_and_any),
    4: (ir.SetOperation.INTERSECTION_MULTISET, _all_nullable),
    8: (ir.SetOperation.INTERSECTION_MULTISET_ALL, _all_nullable),
    5: (ir.SetOperation.UNION_DISTINCT, _any_nullable),
    6: (ir.SetOperation.UNION_ALL, _any_nullable),
}
_OF_MULTISETS: Final = (
    ir.SetOperation.INTERSECTION_MULTISET,
    ir.SetOperation.INTERSECTION_MULTISET_ALL,
    ir.SetOperation.MINUS_MULTISET,
)


def convert_set(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    operation = _OPERATIONS.get(message.op)
    of_multisets = operation is not None and operation[0] in _OF_MULTISETS
    if of_multisets and not decoder.count(limits.MULTISET_INPUTS, plan_path / "inputs", len(message.inputs)):
        return poison.RELATION
    inputs: list[ir.Relation] = []
    for index, number in enumerate(message.inputs):
        inputs.append((yield from decoder.relation(number, plan_path.at("inputs", index), outer)))
    if len(inputs) < 2:
        decoder.problems.add(
            plan_path / "inputs", "MISSING", f"a set operation must have at least two inputs, not {len(inputs)}"
        )
    if decoder.loops.guessing:  # the loop's columns may not be known yet; the other inputs give their types
        inputs = [child for child in inputs if child is not poison.RELATION] or inputs
    if operation is None:
        decoder.problems.add(plan_path / "op", "MISSING", "the operation is missing or unknown")
    if operation is None or not inputs or any(child is poison.RELATION for child in inputs):
        return poison.RELATION
    for index, child in enumerate(inputs[1:], start=1):
        if not _agree(decoder, inputs[0].schema, child.schema, plan_path.at("inputs", index)):
            return poison.RELATION
    kind, nullability = operation
    if kind is ir.SetOperation.UNION_ALL and decoder.habits.union_is_union_all:
        sentence = "the producer writes UNION as UNION ALL; Tidegate runs UNION ALL: write SELECT DISTINCT for UNION"
        decoder.problems.warn(plan_path, sentence)
    columns = zip(*(child.schema for child in inputs), strict=True)
    schema = tuple(nullability(_known(types)) for types in columns)
    return ir.Set(inputs=tuple(inputs), operation=kind, schema=schema, plan_path=str(plan_path))


def _known(types: Sequence[Type]) -> Sequence[Type]:
    """The known types if there are any, else all types."""
    return [type_ for type_ in types if not is_unknown(type_)] or types


def _agree(decoder: Decoder, first: ir.Schema, other: ir.Schema, plan_path: PlanPath) -> bool:
    if len(first) != len(other):
        problem = f"all inputs must have the same columns: the first has {len(first)}, and this input has {len(other)}"
        decoder.problems.add(plan_path, "WRONG_WIDTH", problem)
        return False
    for index, (type_, other_type) in enumerate(zip(first, other, strict=True)):
        if not same_type(type_, other_type):
            problem = f"column {index} is {other_type} here and {type_} in the first input: add a cast"
            decoder.problems.add(plan_path, "MIXED_TYPES", problem)
            return False
    return True
