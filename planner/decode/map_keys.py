"""Keys that no map can have. DuckDB finds them only while it makes the map, and then names neither key nor place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from ..ir import types as t
from ..ir.types import Type

_DAYS_OF_MONTH: Final = 30
_SECONDS_OF_DAY: Final = 86_400


def wrong_key(keys: Iterable[tuple[int, object]], type_: Type) -> tuple[int, str] | None:
    """The number of the first key that cannot be, and what is wrong with it. Each key comes with its number."""
    seen: dict[object, int] = {}
    for number, key in keys:
        if key is None:
            return number, "a key of a map must not be null"
        if seen.setdefault(_compared(key, type_), number) != number:
            return number, "a map must not have a key twice"
    return None


def _compared(value: Any, type_: Type) -> object:
    """The value in the form in which values that SQL takes as equal are equal in Python. Recurses as deep as the type,
    which has a limit.
    """
    match type_:
        case _ if value is None:
            return None
        case t.Float() if math.isnan(value):
            return "NaN"  # a NaN of Python does not equal itself
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            months, days, ticks = value
            of_day = _SECONDS_OF_DAY * 10 ** (0 if isinstance(type_, t.IntervalYear) else type_.precision)
            return (months * _DAYS_OF_MONTH + days) * of_day + ticks
        case t.Struct(fields=fields):
            return tuple(map(_compared, value, fields))
        case t.List(element=element):
            return tuple(_compared(item, element) for item in value)
        case t.Map(key=key, value=item):
            return tuple((_compared(k, key), _compared(v, item)) for k, v in value)
        case _:
            return value
