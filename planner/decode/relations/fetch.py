"""Decodes `FetchRel`, with numbers (before 0.98) or expressions."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...ir.building import int64
from ...ir.relations import MOST_ROWS
from ...ir.types import Integer
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_OFFSET_ALONE: Final = (
    "an offset with a limit of 0 rows: its producer also writes an offset without a limit so; all rows behind the "
    "offset are given"
)


def convert_fetch(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    # nothing of the input can be referred to: one number holds for all rows
    scope = Scope(schema=(), outer=outer)
    offset: ir.Expression | None
    if message.offset_expr:
        offset = yield from rows_skipped(decoder, message.offset_expr, plan_path / "offset_expr", scope)
    else:
        offset = _skipped(_number(decoder, message.offset, plan_path / "offset")) if message.offset else None
    count: ir.Expression | None = None
    if message.count_expr:
        count = yield from rows_wanted(decoder, message.count_expr, plan_path / "count_expr", scope)
    elif message.offset and not message.count and decoder.habits.offset_alone_counts_zero:
        decoder.problems.warn(plan_path, _OFFSET_ALONE)
    elif message.HasField("count") or decoder.habits.zero_count_absent:
        # before 0.63 -1 stood for all rows
        count = _wanted(_number(decoder, message.count, plan_path / "count")) if message.count != -1 else None
    if below is poison.RELATION:
        return below
    return ir.Fetch(input=below, offset=offset, count=count, schema=below.schema, plan_path=str(plan_path))


def rows_wanted(decoder: Decoder, number: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression | None]:
    """The count of a limit; None for one that no input reaches."""
    return _wanted((yield from _row_count(decoder, number, plan_path, scope)))


def rows_skipped(decoder: Decoder, number: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The offset of a limit."""
    return _skipped((yield from _row_count(decoder, number, plan_path, scope)))


def _wanted(count: ir.Expression) -> ir.Expression | None:
    return None if _beyond(count) else count


def _skipped(offset: ir.Expression) -> ir.Expression:
    return int64(MOST_ROWS) if _beyond(offset) else offset


def _beyond(expression: ir.Expression) -> bool:
    return isinstance(expression, ir.Literal) and isinstance(expression.value, int) and expression.value >= MOST_ROWS


def _row_count(decoder: Decoder, number: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """An expression for a number of rows: an integer, and a literal, cast or not, must not be negative."""
    expression = yield from decoder.expression(number, plan_path, scope)
    if is_unknown(expression.type):
        return expression
    if not isinstance(expression.type, Integer):
        problem = f"a number of rows must be an integer, not {expression.type}"
        decoder.problems.add(plan_path, "NOT_INTEGER", problem)
    if isinstance(expression, ir.Literal) and isinstance(expression.value, int) and expression.value < 0:
        if decoder.habits.row_counts_wrap:
            return int64(MOST_ROWS)
        _negative(decoder, expression.value, plan_path)
    match expression:
        case ir.Cast(operand=ir.Literal(value=int(value))) if value < 0:
            _negative(decoder, value, plan_path)
    return expression


def _number(decoder: Decoder, value: int, plan_path: PlanPath) -> ir.Literal:
    if value < 0:
        _negative(decoder, value, plan_path)
    return int64(value)


def _negative(decoder: Decoder, value: int, plan_path: PlanPath) -> None:
    decoder.problems.add(plan_path, "NEGATIVE", f"a number of rows must not be negative, not {value}")
