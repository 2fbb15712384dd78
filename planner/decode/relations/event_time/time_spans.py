"""The time columns of windows, and lengths of time in their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .... import ir
from ....ir import types as t
from ....ir.types import Type
from ...decoder import Decoder
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import column

_NUMBER: Final = t.Integer(bits=64, nullable=False)
_FINEST: Final = 9
_MOST: Final = 2**62
"""The length of time, in units, from which sums of two lengths may overflow."""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A time column. `value` is never null: rows without a time are filtered out below it."""

    value: ir.Expression
    nullable: bool

    @property
    def type(self) -> Type:
        return self.value.type

    def literal(self, units: int) -> ir.Literal:
        return ir.Literal(value=units, type=self.type)


def time_column(decoder: Decoder, schema: ir.Schema, index: int, plan_path: PlanPath) -> TimeColumn | None:
    """The time column of a relation; None, once reported, if the column is not one."""
    type_ = column(schema, index)
    match type_:
        case t.Integer():
            field: ir.Expression = ir.Field(index=index, type=t.required(type_))
            if t.required(type_) != _NUMBER:
                field = ir.Cast(operand=field, type=_NUMBER)
            return TimeColumn(field, type_.nullable)
        case t.Date() | t.Timestamp() | t.TimestampTz():
            return TimeColumn(ir.Field(index=index, type=t.required(type_)), type_.nullable)
        case None:
            problem = f"there is no column {index}; there are {len(schema)} columns, counted from 0"
            decoder.problems.add(plan_path, "OUT_OF_RANGE", problem)
        case _ if not is_unknown(type_):
            problem = f"column {index} is {type_}: a time column must be an integer, a date or a timestamp"
            decoder.problems.add(plan_path, "NOT_A_TIME", problem)
    return None


def units(decoder: Decoder, span: Any, time: Type, plan_path: PlanPath) -> int | None:
    """A span in units of the time column's type; None, once reported, if the span has no such form."""
    kind = span.WhichOneof("kind")
    match time:
        case t.Timestamp() | t.TimestampTz():
            wanted, unit = "nanoseconds", int(10 ** max(_FINEST - time.precision, 0))
        case _:
            wanted, unit = "units", 1
    if kind != wanted:
        problem = f"for a time column of type {time} a span must be in {wanted}, not in {kind or 'nothing'}"
        decoder.problems.add(plan_path, "WRONG_SPAN", problem)
        return None
    count, rest = divmod(int(getattr(span, wanted)), unit)
    if rest or abs(count) >= _MOST:
        why = f"a whole number of the units of {time}, {unit:,} nanoseconds" if rest else f"below {_MOST:,} units"
        decoder.problems.add(plan_path, "WRONG_SPAN", f"the span must be {why}, not {getattr(span, wanted):,}")
        return None
    return count


def length(decoder: Decoder, span: Any, time: Type, plan_path: PlanPath) -> int | None:
    """A span that must be above 0, as `units` gives it."""
    count = units(decoder, span, time, plan_path)
    if count is not None and count < 1:
        decoder.problems.add(plan_path, "WRONG_SPAN", f"the span must be above 0, not {count:,} units")
        return None
    return count
