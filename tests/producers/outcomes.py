"""The outcome of a producer's plan, against the producer's own answer: right, refused by name, or wrong."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

import tidegate
from tidegate.planner.decode import decode_plan
from tidegate.proto.values import PlanBytes

_DIGITS: Final = 1e-9


class Outcome(enum.StrEnum):
    RIGHT = "yes"
    REFUSED = "refused"
    UNWRITTEN = "not written"
    LOST = "as written"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a query, and why it is not right."""

    outcome: Outcome
    note: str = ""


RIGHT: Final = Result(Outcome.RIGHT)


def refusal(plan: bytes) -> Result | None:
    """The refusal of a plan that does not decode."""
    try:
        decode_plan(PlanBytes(binary=plan))
    except tidegate.PlanError as error:
        return _refused(error)
    return None


def _refused(error: tidegate.PlanError) -> Result:
    first = error.problems[0]
    return Result(Outcome.REFUSED, f"{first.reason}: {first.message}")


def answer(client: tidegate.Client, plan: bytes, tables: Mapping[str, pa.Table]) -> pa.Table | Result:
    """Tidegate's answer over the tables, or why there is none. Tables are fed, so that no plan is folded."""
    try:
        with client.create_task(plan) as task:
            return task.run_epoch({name: tables[name] for name in task.sources}).table()
    except tidegate.PlanError as error:
        return _refused(error)
    except tidegate.TidegateError as error:
        return Result(Outcome.WRONG, f"{type(error).__name__}: {error}")


def held_against(got: pa.Table, expected: pa.Table, *, ordered: bool = False, values: bool = True) -> Result:
    """The outcome of an answer whose producer answers `expected`. Rows have an order only if `ordered`; without
    `values`, types and nulls are compared alone.
    """
    for mine, theirs in zip(got.schema, expected.schema, strict=True):
        if kind(mine.type) != kind(theirs.type):
            return Result(Outcome.WRONG, f"type {kind(mine.type)}, not {kind(theirs.type)}")
    if not values:
        got, expected = (pa.table([c.is_null() for c in t.columns], names=t.column_names) for t in (got, expected))
    mine, theirs = rows(got), rows(expected)
    if not ordered:
        mine, theirs = sorted(mine, key=_key), sorted(theirs, key=_key)
    return RIGHT if alike(mine, theirs) else Result(Outcome.WRONG, f"{mine}, not {theirs}")


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as Python values. Moments are in microseconds, which Python's values hold."""
    types = [_micros(column.type) for column in table.columns]
    columns = zip(table.columns, types, strict=True)
    micros = [column if column.type == type_ else column.cast(type_, safe=False) for column, type_ in columns]
    return list(zip(*(column.to_pylist() for column in micros), strict=True))


def _micros(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(type_):
        return pa.duration("us")
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_


_KINDS: Final = (
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "float"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_time, "time"),
    (pa.types.is_interval, "interval"),
    (pa.types.is_duration, "interval"),
)


def kind(type_: pa.DataType) -> str:
    """A type's family: engines differ in the width of counts and lengths, and in the layout of texts."""
    for test, name in _KINDS:
        if test(type_):
            return name
    match type_:
        case pa.Decimal128Type():
            return f"decimal with {type_.scale} places"
        case pa.TimestampType():
            return "instant" if type_.tz else "timestamp"
        case pa.MapType():
            return f"map of {kind(type_.key_type)} to {kind(type_.item_type)}"
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType() | pa.ListViewType():
            return f"list of {kind(type_.value_type)}"
        case pa.StructType():
            return f"struct of {', '.join(kind(field.type) for field in type_)}"
        case _:
            return str(type_)


def alike(got: Any, wanted: Any) -> bool:
    """Tests whether values are equal, floats to nine digits. A struct's values count, not their names."""
    got, wanted = _plain(got), _plain(wanted)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(alike, got, wanted))
    if isinstance(got, float) and isinstance(wanted, float):
        return (math.isnan(got) and math.isnan(wanted)) or math.isclose(got, wanted, rel_tol=_DIGITS, abs_tol=1e-12)
    return type(got) is type(wanted) and bool(got == wanted)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return list(value.values())
        case pa.MonthDayNano(months=0, days=days, nanoseconds=nanoseconds):
            return dt.timedelta(days=days, microseconds=nanoseconds / 1000)
        case tuple():
            return list(value)
        case dt.datetime():
            return value.replace(tzinfo=None)
        case _:
            return value


def _key(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(_shown(value) for value in row)


def _shown(value: Any) -> str:
    match value:
        case float():
            return f"{value:.6e}"
        case Decimal():
            return f"{value:f}"
        case _:
            return repr(_plain(value))
