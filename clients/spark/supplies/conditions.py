"""The rows of a row group that a filter keeps, as far as the group's statistics prove it: all, none, or some.

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
    """A column's bounds in a row group: its least and greatest value, and its number of nulls, each None if unknown."""

    low: Value | None
    high: Value | None
    nulls: int | None


class Kept(enum.Enum):
    """The rows of a row group that a condition keeps."""

    ALL = "all"
    NONE = "none"
    SOME = "some"


@dataclass(frozen=True, slots=True)
class Compare:
    """`column <sign> value`. It is null for a null, so the row is not kept."""

    column: str
    sign: str
    value: Value


@dataclass(frozen=True, slots=True)
class Null:
    """The column is null, or with `is_null=False` is not null."""

    column: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class Both:
    """A row is kept if both conditions keep it."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    """A row is kept if one of the conditions keeps it."""

    left: Condition
    right: Condition


Condition: TypeAlias = Compare | Null | Both | Either

_SIGNS: Final[dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], bool]]]] = {
    # first: all values from low to high are kept, by the worse end; second: any may be kept, by the better end
    "<": (lambda bounds, v: bounds.high < v, lambda bounds, v: bounds.low < v),
    "<=": (lambda bounds, v: bounds.high <= v, lambda bounds, v: bounds.low <= v),
    ">": (lambda bounds, v: bounds.low > v, lambda bounds, v: bounds.high > v),
    ">=": (lambda bounds, v: bounds.low >= v, lambda bounds, v: bounds.high >= v),
    "=": (lambda bounds, v: bounds.low == v == bounds.high, lambda bounds, v: bounds.low <= v <= bounds.high),
}


def kept(condition: Condition, bounds: Mapping[str, Bounds]) -> Kept:
    """The rows that the condition keeps. `bounds` has the columns by name; a missing column is unknown."""
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


def columns_of(condition: Condition) -> frozenset[str]:
    """The names of the columns that the condition looks at."""
    match condition:
        case Compare() | Null():
            return frozenset({condition.column})
        case Both() | Either():
            return columns_of(condition.left) | columns_of(condition.right)
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
    """A bound of a row group's statistics, or a filter's literal, as a comparable value.

    None for floats (statistics leave out NaN) and bytes, which are not compared.
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


#: Catalyst's names of the comparisons, and the comparison with the literal on the left.
SIGNS: Final = {
    "EqualTo": ("=", "="),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
}

__all__ = [
    "SIGNS",
    "Both",
    "Bounds",
    "Compare",
    "Condition",
    "Either",
    "Kept",
    "Null",
    "columns_of",
    "comparable",
    "kept",
]
