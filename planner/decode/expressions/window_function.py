"""Decodes `Expression.window_function`, and the parts that it shares with the window relation's functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Final

from ... import ir
from ...ir.types import Type, nullable
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..function_calls import Bound, bind, declared_function, read_arguments, read_options
from ..phases import is_distinct, is_whole
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from ..sorting import convert_sorts

_VALUES: Final = frozenset({"first_value", "last_value"})
"""Functions whose result is a value of the frame, though their official type is never null."""
_BOUNDS: Final = {0: ir.BoundsKind.ROWS, 1: ir.BoundsKind.ROWS, 2: ir.BoundsKind.RANGE}


def convert_window_function(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    """The column for the function's result. The call goes to the `Window` below the projection."""
    inner = scope.without_windows()
    partitions = yield from decoder.expressions(message.partitions, plan_path, "partitions", inner)
    sorts = yield from convert_sorts(decoder, message.sorts, plan_path, inner)
    call = yield from convert_call(decoder, message, plan_path, inner, partitions, sorts, has_old=True)
    if scope.windows is None:
        problem = "a window function can only stand in a projection"
        decoder.problems.add(plan_path, "MISPLACED_WINDOW_FUNCTION", problem)
        return poison.EXPRESSION
    order = _order(decoder, message)
    if order not in scope.windows.orders:
        scope.windows.orders.add(order)
        decoder.count(limits.WINDOW_ORDERS, plan_path)
    return poison.EXPRESSION if call is None else scope.windows.lift(call)


def _order(decoder: Decoder, message: Message) -> Hashable:
    """What is the same for window functions over the same partitions in the same order."""
    content = decoder.nodes.content
    return (
        tuple(map(content, message.partitions)),
        tuple((content(sort.expr), sort.direction) for sort in message.sorts),
    )


def convert_call(
    decoder: Decoder,
    message: Message,
    plan_path: PlanPath,
    scope: Scope,
    partitions: Sequence[ir.Expression],
    sorts: Sequence[ir.SortKey],
    *,
    has_old: bool,
) -> Steps[ir.WindowCall | None]:
    """The call; None if it is poison."""
    declared = declared_function(decoder, message.function_reference, plan_path)
    arguments = yield from read_arguments(decoder, message, plan_path, scope, has_old=has_old)
    options = read_options(decoder, message, plan_path)
    output: Type | None = decoder.types.optional(message.output_type, plan_path / "output_type")
    whole = is_whole(decoder, message, plan_path)
    lower = yield from _bound(decoder, message, "lower_bound", plan_path, scope)
    upper = yield from _bound(decoder, message, "upper_bound", plan_path, scope)
    bounds = _BOUNDS.get(message.bounds_type)
    if bounds is None:
        decoder.problems.add(plan_path / "bounds_type", "BAD_BOUND", "the bounds must be ROWS or RANGE")
    poisoned = any(is_unknown(partition.type) for partition in partitions) or any(
        is_unknown(s.expression.type) for s in sorts
    )
    if bounds is ir.BoundsKind.ROWS and any(isinstance(bound and bound.offset, ir.Literal) for bound in (lower, upper)):
        decoder.problems.add(plan_path, "BAD_BOUND", "an offset of rows must be an integer")
        return None
    if lower is not None and upper is not None and _side(lower, unbounded=-1) > _side(upper, unbounded=1):
        problem = "the frame begins behind its end, so it never has a row: exchange the bounds"
        decoder.problems.add(plan_path, "BAD_BOUND", problem)
        return None
    if declared is None or not whole or lower is None or upper is None or bounds is None or poisoned:
        return None
    bound = bind(decoder, ir.FunctionKind.WINDOW, declared, arguments, plan_path, options=options, output=output)
    if bound is None:
        return None
    return ir.WindowCall(
        function=bound.function,
        arguments=tuple(bound.arguments),
        type=nullable(bound.type) if _may_be_null(bound, lower, upper) else bound.type,
        partitions=tuple(partitions),
        sorts=tuple(sorts),
        lower=lower,
        upper=upper,
        bounds=bounds,
        distinct=is_distinct(decoder, message, plan_path),
        options=bound.options,
        plan_path=str(plan_path),
    )


def _side(bound: ir.Bound, *, unbounded: int) -> int:
    """-1 for a bound before the row, 0 for the row itself, 1 for a bound behind it."""
    offset = bound.offset.value if isinstance(bound.offset, ir.Literal) else bound.offset
    match offset:
        case None:
            return unbounded
        case (int(), int(), int()):
            return max(-1, min(1, next(filter(None, offset), 0)))
        case int() | float() | Decimal():
            return (offset > 0) - (offset < 0)
        case _:
            return 0


def _may_be_null(bound: Bound, lower: ir.Bound, upper: ir.Bound) -> bool:
    """Tests whether the function gives a value of the frame that may be null, or of a frame that may have no rows."""
    if bound.function.name not in _VALUES:
        return False
    starts = lower.offset is None or (isinstance(lower.offset, int) and lower.offset <= 0)
    ends = upper.offset is None or (isinstance(upper.offset, int) and upper.offset >= 0)
    values = (argument for argument in bound.arguments if not isinstance(argument, str))
    return not (starts and ends) or any(value.type.nullable for value in values)


def _bound(decoder: Decoder, message: Message, field: str, plan_path: PlanPath, scope: Scope) -> Steps[ir.Bound | None]:
    """A bound; None, once reported, if it is no bound. An absent bound is unbounded."""
    bound = getattr(message, field)
    at = plan_path / field
    kind = bound.WhichOneof("kind")
    match kind:
        case None | "unbounded":
            return ir.Bound(offset=None)
        case "current_row":
            return ir.Bound(offset=0)
    body = getattr(bound, kind)
    if not body.offset_expr:
        return ir.Bound(offset=-body.offset if kind == "preceding" else body.offset)
    expression = yield from decoder.expression(body.offset_expr, at / kind / "offset_expr", scope)
    if is_unknown(expression.type):
        return None
    offset = _offset(expression, backwards=kind == "preceding")
    if offset is None:
        problem = "an offset must be the literal of a number or an interval, not null and not negative"
        decoder.problems.add(at / kind / "offset_expr", "BAD_BOUND", problem)
        return None
    return ir.Bound(offset=offset)


def _offset(expression: ir.Expression, *, backwards: bool) -> int | ir.Expression | None:
    """A literal as a bound's offset, negative if it goes backwards."""
    if not isinstance(expression, ir.Literal):
        return None
    sign = -1 if backwards else 1
    match expression.value:
        case bool():
            return None
        case int(value):
            return sign * value
        case float() | Decimal() as value if value >= 0 and math.isfinite(value):
            return ir.Literal(value=sign * value, type=expression.type)
        case (int(months), int(days), int(subseconds)) if min(months, days, subseconds) >= 0:
            return ir.Literal(value=(sign * months, sign * days, sign * subseconds), type=expression.type)
        case _:
            return None
