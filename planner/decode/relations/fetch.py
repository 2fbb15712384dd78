"""Decodes `FetchRel`, with numbers (before 0.98) or expressions."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...ir.building import int64
from ...ir.types import Integer
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_MOST_ROWS: Final = 2**63 - 1


def convert_fetch(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    # nothing of the input can be referred to: one number holds for all rows
    scope = Scope(schema=(), outer=outer)
    offset: ir.Expression | None
    if message.offset_expr:
        offset = yield from row_count(decoder, message.offset_expr, plan_path / "offset_expr", scope)
    else:
        offset = _number(decoder, message.offset, plan_path / "offset") if message.offset else None
    count: ir.Expression | None = None
    if message.count_expr:
        count = yield from row_count(decoder, message.count_expr, plan_path / "count_expr", scope)
    elif message.HasField("count") or decoder.habits.zero_count_absent:
        # before 0.63 -1 stood for all rows
        count = _number(decoder, message.count, plan_path / "count") if message.count != -1 else None
    if below is poison.RELATION:
        return below
    return ir.Fetch(input=below, offset=offset, count=count, schema=below.schema, plan_path=str(plan_path))


def row_count(decoder: Decoder, number: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """An expression for a number of rows: an integer, and a literal must not be negative."""
    expression = yield from decoder.expression(number, plan_path, scope)
    if is_unknown(expression.type):
        return expression
    if not isinstance(expression.type, Integer):
        problem = f"a number of rows must be an integer, not {expression.type}"
        decoder.problems.add(plan_path, "NOT_INTEGER", problem)
    if isinstance(expression, ir.Literal) and isinstance(expression.value, int) and expression.value < 0:
        if decoder.habits.row_counts_wrap:
            return int64(_MOST_ROWS)
        _negative(decoder, expression.value, plan_path)
    return expression


def _number(decoder: Decoder, value: int, plan_path: PlanPath) -> ir.Literal:
    if value < 0:
        _negative(decoder, value, plan_path)
    return int64(value)


def _negative(decoder: Decoder, value: int, plan_path: PlanPath) -> None:
    decoder.problems.add(plan_path, "NEGATIVE", f"a number of rows must not be negative, not {value}")
