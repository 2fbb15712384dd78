"""Tests whether an aggregate's result depends on the order of its input rows."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from .. import ir
from ..ir import types as t

Grouping: TypeAlias = (
    ir.Aggregate | ir.SlidingAggregate | ir.PartialAggregate | ir.FinalAggregate | ir.FinalSlidingAggregate
)

_ANY_ORDER: Final = frozenset({"count", "min", "max", "bool_and", "bool_or"})
_ADDING: Final = frozenset({"sum", "sum0", "avg", "avg_cut"})


def is_exact(relation: Grouping) -> bool:
    """Tests whether the rows that come out are the same, bit for bit, in whatever order the input rows come."""
    keys = relation.schema[: number_of_keys(relation)]
    return all(map(is_one_value, keys)) and all(map(_is_exact, relation.measures))


def number_of_keys(relation: Grouping) -> int:
    """The number of columns, the first ones, that no two rows have the same values in."""
    keys = relation.keys if isinstance(relation.keys, int) else len(relation.keys)
    return keys + isinstance(relation, ir.SlidingAggregate | ir.FinalSlidingAggregate)


def _is_exact(measure: ir.Measure) -> bool:
    """Tests a measure. A function that is not known to be exact counts as not exact."""
    types = [argument.type for argument in measure.arguments if not isinstance(argument, str)]
    if measure.function.name in _ADDING:
        return all(isinstance(type_, t.Integer | t.Decimal) for type_ in types)
    return measure.function.name in _ANY_ORDER and all(map(is_one_value, types))


def is_one_value(type_: t.Type) -> bool:
    """Tests whether equal values of the type are also the same: 0.0 and -0.0, a month and 30 days are not."""
    match type_:
        case t.Boolean() | t.Integer() | t.Decimal() | t.Uuid():
            return True
        case t.String() | t.VarChar() | t.FixedChar() | t.Binary() | t.FixedBinary():
            return True
        case t.Date() | t.Time() | t.Timestamp() | t.TimestampTz():
            return True
        case t.Float() | t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            return False
        case t.Struct() | t.List() | t.Map():
            return False
        case _:
            assert_never(type_)
