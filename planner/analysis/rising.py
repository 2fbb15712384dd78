"""Expressions that never fall when a column rises: of two rows, the one with the lesser value of the column has no
greater value of the expression. So the hour of a moment, and a number divided by 60, rise with the moment and the
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from .. import ir
from ..ir import types as t
from ..ir.visit import is_column, parts, transform

_ORDERED: Final = (t.Integer, t.Float, t.Decimal, t.Date, t.Timestamp, t.TimestampTz)
_FAR: Final = 64
"""Expressions of more parts than this are not looked at."""

_Operands: TypeAlias = tuple[ir.Expression | str, ...]


@dataclass(frozen=True, slots=True)
class Rising:
    """An expression that rises with one column alone, which it reads as column 0. With `zoned` it may also fall, but
    not by more than clocks of a time zone are ever set back.
    """

    column: int
    expression: ir.Expression
    zoned: bool

    def over(self, below: Rising) -> Rising | None:
        """The expression where its column is itself such an expression; None if it has too many parts."""
        expression = put_in(self.expression, below.expression)
        few = sum(1 for _ in islice(parts(expression), _FAR + 1)) <= _FAR
        return Rising(below.column, expression, self.zoned or below.zoned) if few else None


def rising(expression: ir.Expression) -> Rising | None:
    """The expression as one that rises with a column; None if it is no such expression."""
    known = list(islice(parts(expression), _FAR + 1))
    fields = {part.index for part in known if isinstance(part, ir.Field)}
    if len(fields) != 1 or len(known) > _FAR:
        return None
    zones: list[bool] = []
    if not _rises(expression, zones):
        return None
    (column,) = fields
    return Rising(column, _at_0(expression), any(zones))


def _at_0(expression: ir.Expression) -> ir.Expression:
    def change(part: ir.Expression) -> ir.Expression:
        return ir.Field(index=0, type=part.type) if isinstance(part, ir.Field) else part

    return transform(expression, change)


def put_in(expression: ir.Expression, value: ir.Expression) -> ir.Expression:
    """The expression with this value in place of its column."""
    return transform(expression, lambda part: value if isinstance(part, ir.Field) else part)


def _rises(expression: ir.Expression, zones: list[bool]) -> bool:
    match expression:
        case ir.Field():
            return is_column(expression) and isinstance(expression.type, _ORDERED)
        case ir.Cast(operand=operand, type=type_):
            zones.append(isinstance(operand.type, t.TimestampTz) or isinstance(type_, t.TimestampTz))
            return isinstance(type_, _ORDERED) and isinstance(operand.type, _ORDERED) and _rises(operand, zones)
        case ir.Call(function=function, arguments=arguments):
            zones += [isinstance(part.type, t.TimestampTz) for part in arguments if not isinstance(part, str)]
            rises = _RISES.get(function.name)
            at = None if rises is None or not isinstance(expression.type, _ORDERED) else rises(arguments)
            risen = None if at is None else arguments[at]
            return risen is not None and not isinstance(risen, str) and _rises(risen, zones)
        case _:
            return False


def _constant(operand: ir.Expression | str) -> object:
    """The value of an argument that is a constant, or the name of a choice; None if it is none."""
    while isinstance(operand, ir.Cast):
        operand = operand.operand
    return operand if isinstance(operand, str) else operand.value if isinstance(operand, ir.Literal) else None


def _only(position: int) -> Callable[[_Operands], int | None]:
    """All other arguments are constants."""

    def find(arguments: _Operands) -> int | None:
        at = position if position < len(arguments) else None
        others = (argument for number, argument in enumerate(arguments) if number != at)
        return at if all(_constant(argument) is not None for argument in others) else None

    return find


def _rounded_down(arguments: _Operands) -> int | None:
    """Multiples are counted from the beginning of a greater unit; the one above may be beyond the next beginning."""
    return _FIRST(arguments) if arguments[1] == "FLOOR" else None


def _added(arguments: _Operands) -> int | None:
    """A constant is added, without months: they have different lengths."""
    constant = [_constant(argument) is not None for argument in arguments]
    if constant.count(False) != 1 or any(_has_months(argument) for argument in arguments):
        return None
    return constant.index(False)


def _has_months(operand: ir.Expression | str) -> bool:
    value = _constant(operand)
    return isinstance(value, tuple) and (len(value) != 3 or value[0] != 0)


def _subtracted(arguments: _Operands) -> int | None:
    """A number less a constant, or less its own remainder."""
    x, y = arguments
    if _constant(y) is not None:
        return None if _has_months(y) else 0
    match y:
        case ir.Call(function=ir.Function(name="modulus"), arguments=(operand, divisor)) if _positive(divisor):
            return 0 if is_column(x) and is_column(operand) and x.index == operand.index else None
        case _:
            return None


def _multiplied(arguments: _Operands) -> int | None:
    at = _added(arguments)
    return at if at is not None and _positive(arguments[1 - at]) else None


def _divided(arguments: _Operands) -> int | None:
    return 0 if _positive(arguments[1]) else None


def _positive(operand: ir.Expression | str) -> bool:
    value = _constant(operand)
    return not isinstance(value, str | bytes | tuple | None) and value > 0  # type: ignore[operator]


def _extracted(arguments: _Operands) -> int | None:
    """The year alone rises with the moment."""
    return 1 if arguments[0] == "YEAR" else None


_FIRST, _SECOND = _only(0), _only(1)

_RISES: Final[Mapping[str, Callable[[_Operands], int | None]]] = {
    **dict.fromkeys(("time_slice", "slice_start", "calendar_slice", "calendar_start"), _FIRST),
    **dict.fromkeys(("round_temporal", "cut", "floor", "ceil", "trunc", "epoch"), _FIRST),
    **dict.fromkeys(("from_unixtime", "to_timestamp_seconds", "to_timestamp_millis", "to_timestamp_micros"), _FIRST),
    **dict.fromkeys(("date_trunc", "date_bin"), _SECOND),
    "round_calendar": _rounded_down,
    "add": _added,
    "subtract": _subtracted,
    "multiply": _multiplied,
    "divide": _divided,
    "extract": _extracted,
}
"""For each function the number of the argument that it rises with."""
