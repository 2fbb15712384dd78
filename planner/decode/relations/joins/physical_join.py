"""Decodes `HashJoinRel` and `MergeJoinRel`: joins by pairs of keys, which become one condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .... import ir
from ... import poison
from ...comparing import comparable
from ...declarations.extensions import Declared
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...expressions.selection import convert_key
from ...function_calls import bind_scalar, declared_function
from ...plan_path import PlanPath
from ...scope import Scope
from .join_schema import PHYSICAL, filtered, has_columns, join_schema, join_type

_COMPARISON: Final = "extension:io.substrait:functions_comparison"
_EQUAL: Final = Declared("equal", _COMPARISON)
_AND: Final = Declared("and", "extension:io.substrait:functions_boolean")
_SIMPLE: Final = {1: _EQUAL, 2: Declared("is_not_distinct_from", _COMPARISON)}


def convert_hash_join(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from _convert(decoder, message, plan_path, outer, ir.JoinAlgorithm.HASH))


def convert_merge_join(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from _convert(decoder, message, plan_path, outer, ir.JoinAlgorithm.MERGE))


def _convert(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None, algorithm: ir.JoinAlgorithm
) -> Steps[ir.Relation]:
    left = yield from decoder.relation(message.left, plan_path / "left", outer)
    right = yield from decoder.relation(message.right, plan_path / "right", outer)
    parts = _keys(decoder, message, left, right, plan_path)
    if message.residual_expression:
        scope = decoder.scope([left, right], message, outer)
        parts.append(
            (yield from decoder.condition(message.residual_expression, plan_path / "residual_expression", scope))
        )
    type_ = join_type(decoder, message.type, PHYSICAL, plan_path)
    join: ir.Relation = poison.RELATION
    if type_ is not None and has_columns(decoder, left, right, type_):
        join = ir.Join(
            left=left,
            right=right,
            type=type_,
            condition=parts[0] if len(parts) == 1 else bind_scalar(decoder, _AND, parts, plan_path),
            schema=join_schema(left.schema, right.schema, type_),
            plan_path=str(plan_path),
            algorithm=algorithm,
        )
    return (yield from filtered(decoder, join, message, plan_path, outer))


def _keys(
    decoder: Decoder, message: Message, left: ir.Relation, right: ir.Relation, plan_path: PlanPath
) -> list[ir.Expression]:
    """The comparison of each pair of keys. Before 0.98 keys were two lists, compared by equality."""
    if message.keys:
        return [
            _compare(decoder, key, left, right, plan_path.at("keys", index)) for index, key in enumerate(message.keys)
        ]
    if len(message.left_keys) != len(message.right_keys) or not message.left_keys:
        problem = (
            f"{len(message.left_keys)} keys on the left and {len(message.right_keys)} on the right; give as many "
            "keys on the left as on the right"
        )
        decoder.problems.add(plan_path / "keys", "MISSING", problem)
        return [poison.EXPRESSION]
    conditions: list[ir.Expression] = []
    for index, (left_key, right_key) in enumerate(zip(message.left_keys, message.right_keys, strict=True)):
        these = convert_key(decoder, left_key, left, plan_path.at("left_keys", index))
        those = convert_key(decoder, right_key, right, plan_path.at("right_keys", index))
        conditions.append(_call(decoder, _EQUAL, these, _shift(those, left), plan_path.at("left_keys", index)))
    return conditions


def _compare(
    decoder: Decoder, key: Message, left: ir.Relation, right: ir.Relation, plan_path: PlanPath
) -> ir.Expression:
    these = convert_key(decoder, key.left, left, plan_path / "left")
    those = _shift(convert_key(decoder, key.right, right, plan_path / "right"), left)
    comparison = key.comparison
    if comparison.WhichOneof("inner_type") == "custom_function_reference":
        at = plan_path / "comparison" / "custom_function_reference"
        custom = declared_function(decoder, comparison.custom_function_reference, at)
        return poison.EXPRESSION if custom is None else _call(decoder, custom, these, those, at)
    simple = _SIMPLE.get(comparison.simple)
    if simple is None:
        problem = (
            "the comparison must be EQ or IS_NOT_DISTINCT_FROM; a comparison that may give false matches is not "
            "supported"
        )
        decoder.problems.add(plan_path / "comparison", "UNSUPPORTED_COMPARISON", problem)
        return poison.EXPRESSION
    return _call(decoder, simple, these, those, plan_path / "comparison")


def _call(
    decoder: Decoder, function: Declared, left: ir.Expression, right: ir.Expression, plan_path: PlanPath
) -> ir.Expression:
    if not comparable(left.type, right.type):
        problem = f"{left.type} cannot be compared with {right.type}"
        decoder.problems.add(plan_path, "MIXED_TYPES", problem)
        return poison.EXPRESSION
    return bind_scalar(decoder, function, [left, right], plan_path)


def _shift(key: ir.Expression, left: ir.Relation) -> ir.Expression:
    """A key of the right input as a column of both inputs' row."""
    return replace(key, index=key.index + len(left.schema)) if isinstance(key, ir.Field) else key
