"""Decodes `Expression.singular_or_list` and `multi_or_list`: IN with a list of values."""

from __future__ import annotations

from collections.abc import Sequence

from ... import ir
from ...ir.types import Boolean
from .. import poison
from ..comparing import comparable
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_singular_or_list(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    value = yield from decoder.expression(message.value, plan_path / "value", scope)
    options = yield from decoder.expressions(message.options, plan_path, "options", scope)
    at = [plan_path.at("options", index) for index in range(len(options))]
    return _one_of(decoder, (value,), [(option,) for option in options], at, plan_path)


def convert_multi_or_list(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    value = yield from decoder.expressions(message.value, plan_path, "value", scope)
    options: list[tuple[ir.Expression, ...]] = []
    at = [plan_path.at("options", index) for index in range(len(message.options))]
    for record, where in zip(message.options, at, strict=True):
        options.append((yield from decoder.expressions(record.fields, where, "fields", scope)))
    return _one_of(decoder, value, options, at, plan_path)


def _one_of(
    decoder: Decoder,
    value: tuple[ir.Expression, ...],
    options: Sequence[tuple[ir.Expression, ...]],
    at: Sequence[PlanPath],
    plan_path: PlanPath,
) -> ir.Expression:
    if not value or not options:
        decoder.problems.add(plan_path, "MISSING", "an IN list must have a value and at least one option")
        return poison.EXPRESSION
    for option, where in zip(options, at, strict=True):
        if len(option) != len(value):
            problem = f"an option of {len(option)} values for a value of {len(value)}"
            decoder.problems.add(where, "WRONG_WIDTH", problem)
            return poison.EXPRESSION
        odd = next(((v, o) for v, o in zip(value, option, strict=True) if not comparable(v.type, o.type)), None)
        if odd is not None:
            problem = f"{odd[0].type} is never equal to {odd[1].type}"
            decoder.problems.add(where, "MIXED_TYPES", problem)
    everything = [expression for row in (value, *options) for expression in row]
    if any(is_unknown(expression.type) for expression in everything):
        return poison.EXPRESSION
    nullable = any(expression.type.nullable for expression in everything)
    return ir.OneOf(value=value, options=tuple(options), type=Boolean(nullable=nullable))
