"""Decodes `Expression.nested`: structs, lists and maps made of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ... import ir
from ...ir import types as t
from ...ir.types import Type
from .. import poison
from ..comparing import either_nullable, same_type, wrong_key
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_nested(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    kind = message.WhichOneof("nested_type")
    if kind is None:
        return decoder.missing_expression(plan_path)
    body = getattr(message, kind)
    nullable = message.nullable
    match kind:
        case "struct":
            fields = yield from decoder.expressions(body.fields, plan_path / kind, "fields", scope)
            if any(is_unknown(field.type) for field in fields):
                return poison.EXPRESSION
            types = tuple(field.type for field in fields)
            struct = t.Struct(fields=types, nullable=nullable)
            return ir.Nested(construct=ir.Construct.STRUCT, items=fields, type=struct)
        case "list":
            values = yield from decoder.expressions(body.values, plan_path / kind, "values", scope)
            element = _common(decoder, values, plan_path / kind, "elements")
            if element is None:
                return poison.EXPRESSION
            list_ = t.List(element=element, nullable=nullable)
            return ir.Nested(construct=ir.Construct.LIST, items=values, type=list_)
        case _:
            return (yield from _map(decoder, body, plan_path / kind, scope, nullable=nullable))


def _map(decoder: Decoder, body: Message, plan_path: PlanPath, scope: Scope, *, nullable: bool) -> Steps[ir.Expression]:
    keys: list[ir.Expression] = []
    values: list[ir.Expression] = []
    for index, pair in enumerate(body.key_values):
        at = plan_path.at("key_values", index)
        keys.append((yield from decoder.expression(pair.key, at / "key", scope)))
        values.append((yield from decoder.expression(pair.value, at / "value", scope)))
    key = _common(decoder, keys, plan_path, "keys")
    value = _common(decoder, values, plan_path, "values") if keys else None
    if key is None or value is None:
        return poison.EXPRESSION
    literals = ((at, expression.value) for at, expression in enumerate(keys) if isinstance(expression, ir.Literal))
    wrong = wrong_key(literals, key)
    if wrong is not None:
        decoder.problems.add(plan_path.at("key_values", wrong[0]) / "key", "BAD_LITERAL", wrong[1])
        return poison.EXPRESSION
    items = tuple(expression for pair in zip(keys, values, strict=True) for expression in pair)
    return ir.Nested(construct=ir.Construct.MAP, items=items, type=t.Map(key=key, value=value, nullable=nullable))


def _common(decoder: Decoder, items: Sequence[ir.Expression], plan_path: PlanPath, what: str) -> Type | None:
    """The one type of all items; None, which is reported, if there is no such type."""
    types = [expression.type for expression in items]
    if any(map(is_unknown, types)):
        return None
    if not types:
        problem = f"there are no {what} to derive the type from; use an empty literal"
        decoder.problems.add(plan_path, "MISSING", problem)
        return None
    odd = next((type_ for type_ in types[1:] if not same_type(types[0], type_)), None)
    if odd is not None:
        problem = f"all {what} must have the same type, not {types[0]} and {odd}"
        decoder.problems.add(plan_path, "MIXED_TYPES", problem)
        return None
    return reduce(either_nullable, types)
