"""Decodes `Expression.singular_or_list` and `multi_or_list`: IN with a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from ... import ir
from ...functions import in_one_order
from ...ir.types import Boolean
from .. import poison
from ..comparing import comparable
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_TYPE: Final = attrgetter("type")


def convert_singular_or_list(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    value = yield from decoder.expression(message.value, plan_path / "value", scope, untyped=True)
    options = yield from decoder.expressions(message.options, plan_path, "options", scope, untyped=True)
    needle, *others = decoder.typed((value, *options), plan_path)
    return _one_of(decoder, (needle,), list(zip(others, strict=True)), plan_path)


def convert_multi_or_list(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    value = yield from decoder.expressions(message.value, plan_path, "value", scope)
    options: list[tuple[ir.Expression, ...]] = []
    for index, record in enumerate(message.options):
        options.append((yield from decoder.expressions(record.fields, plan_path.at("options", index), "fields", scope)))
    return _one_of(decoder, value, options, plan_path)


def _one_of(
    decoder: Decoder,
    value: tuple[ir.Expression, ...],
    options: Sequence[tuple[ir.Expression, ...]],
    plan_path: PlanPath,
) -> ir.Expression:
    if not value or not options:
        decoder.problems.add(plan_path, "MISSING", "an IN list must have a value and at least one option")
        return poison.EXPRESSION
    types = tuple(operand.type for operand in value)
    rows = [tuple(map(_TYPE, option)) for option in options]
    kinds = {tuple(map(id, row)): row for row in rows}.values()  # literals of one list share their types
    fitting = {row for row in kinds if len(row) == len(types) and all(map(comparable, types, row))}
    for index, row in enumerate(rows if not fitting.issuperset(kinds) else ()):
        if row in fitting:
            continue
        at = plan_path.at("options", index)
        if len(row) != len(types):
            problem = f"an option of {len(row)} values for a value of {len(types)}"
            decoder.problems.add(at, "WRONG_WIDTH", problem)
            return poison.EXPRESSION
        own, other = next((own, other) for own, other in zip(types, row, strict=True) if not comparable(own, other))
        decoder.problems.add(at, "MIXED_TYPES", f"{own} is never equal to {other}")
    everything = [type_ for row in (types, *kinds) for type_ in row]
    if any(map(is_unknown, everything)):
        return poison.EXPRESSION
    nullable = any(type_.nullable for type_ in everything)
    columns = [in_one_order(column) for column in zip(value, *options, strict=True)]
    value, *options = zip(*columns, strict=True)
    return ir.OneOf(value=value, options=tuple(options), type=Boolean(nullable=nullable))
