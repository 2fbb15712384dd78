"""What a filter keeps of a row group, as far as the group's statistics prove it: all rows, none, or some.

A filter that keeps all or none of every row group is a choice of row groups; any other has to be computed.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, assert_never

Value: TypeAlias = int | str | Decimal
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one column in a row group: its least and greatest value, if they are known; how many nulls, if known."""

    low: Value | None
    high: Value | None
    nulls: int | None


class Kept(enum.Enum):
    ALL = "all"
    NONE = "none"
    SOME = "some"


@dataclass(frozen=True, slots=True)
class Compare:
    """`column <sign> value`; null, so not kept, where the column is."""

    column: str
    sign: str
    value: Value


@dataclass(frozen=True, slots=True)
class Null:
    """The column is null, or with `is_null` false is not."""

    column: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class Both:
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    left: Condition
    right: Condition


Condition: TypeAlias = Compare | Null | Both | Either

_SIGNS: Final[dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], bool]]]] = {
    # whether all values from low to high are kept, by the worse end; whether any may be, by the better one
    "<": (lambda bounds, v: bounds.high < v, lambda bounds, v: bounds.low < v),
    "<=": (lambda bounds, v: bounds.high <= v, lambda bounds, v: bounds.low <= v),
    ">": (lambda bounds, v: bounds.low > v, lambda bounds, v: bounds.high > v),
    ">=": (lambda bounds, v: bounds.low >= v, lambda bounds, v: bounds.high >= v),
    "=": (lambda bounds, v: bounds.low == v == bounds.high, lambda bounds, v: bounds.low <= v <= bounds.high),
}


def kept(condition: Condition, bounds: Mapping[str, Bounds]) -> Kept:
    """`bounds` has the columns by name; what is missing there is not known."""
    match condition:
        case Compare():
            return _compared(condition, bounds.get(condition.column))
        case Null():
            return _null(condition, bounds.get(condition.column))
        case Both():
            return _joined(kept(condition.left, bounds), kept(condition.right, bounds), Kept.NONE, Kept.ALL)
        case Either():
            return _joined(kept(condition.left, bounds), kept(condition.right, bounds), Kept.ALL, Kept.NONE)
        case _:
            assert_never(condition)


def _joined(left: Kept, right: Kept, either: Kept, both: Kept) -> Kept:
    if either in (left, right):
        return either
    return both if left is right is both else Kept.SOME


def _compared(condition: Compare, bounds: Bounds | None) -> Kept:
    if bounds is None or bounds.low is None or bounds.high is None:
        return Kept.SOME
    every, anything = _SIGNS[condition.sign]
    if not anything(bounds, condition.value):
        return Kept.NONE
    return Kept.ALL if bounds.nulls == 0 and every(bounds, condition.value) else Kept.SOME


def _null(condition: Null, bounds: Bounds | None) -> Kept:
    if bounds is None or bounds.nulls is None:
        return Kept.SOME
    if bounds.nulls == 0:
        return Kept.NONE if condition.is_null else Kept.ALL
    return Kept.SOME


def comparable(value: Any) -> Value | None:
    """A bound of a row group's statistics, or a filter's literal, as what they are compared as; None where they are
    not: floats (of which statistics leave out NaN) and bytes.
    """
    match value:
        case bool() | float() | bytes() | None:
            return None
        case dt.datetime():
            instant = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            return (instant - _EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return value.toordinal() - _EPOCH.toordinal()
        case int() | str() | Decimal():
            return value
        case _:
            return None


#: Catalyst's names of the comparisons, and which one it is when the literal stands on the left.
SIGNS: Final = {
    "EqualTo": ("=", "="),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
}

__all__ = ["SIGNS", "Both", "Bounds", "Compare", "Condition", "Either", "Kept", "Null", "comparable", "kept"]
