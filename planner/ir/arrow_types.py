"""Substrait's types in DuckDB and in Arrow.

This module alone decides which DuckDB type and which Arrow type a Substrait type becomes. Inside a statement, strings
of any kind are VARCHAR, bytes of any kind are BLOB, and a struct's fields are called f1, f2, ... in order (SQL reads
them by position). Names, fixed widths and units come back when a result is cast to `schema`.

DuckDB's results differ from `schema` in ways that `pyarrow` casts without loss, except for UUIDs (DuckDB gives text
unless `arrow_lossless_conversion` is set).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ...operators.changes.event_time.window_closing import Ticks
from ...proto.errors import PlanError, Problem
from . import types as t
from .types import Type
from .walk import unroll

FINEST: Final = 9
_MICROS: Final = 6
_DAY: Final = 86_400_000_000
_LEAST: Final = {_MICROS: -9_223_372_022_400_000_000, FINEST: 2 - (1 << 63)}
_MOST: Final = (1 << 63) - 2
"""The timestamps that DuckDB has, in microseconds and in nanoseconds: the numbers next to them are its infinities, and
texts of smaller ones are an internal error of DuckDB.
"""
_UNITS: Final = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")
_UNIT_DIGITS: Final[dict[str, int]] = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ARROW_INTEGERS: Final[dict[tuple[int, bool], pa.DataType]] = {
    (8, True): pa.int8(),
    (16, True): pa.int16(),
    (32, True): pa.int32(),
    (64, True): pa.int64(),
    (8, False): pa.uint8(),
    (16, False): pa.uint16(),
    (32, False): pa.uint32(),
    (64, False): pa.uint64(),
}
_SQL_INTEGERS: Final[dict[tuple[int, bool], str]] = {
    (8, True): "TINYINT",
    (16, True): "SMALLINT",
    (32, True): "INTEGER",
    (64, True): "BIGINT",
    (8, False): "UTINYINT",
    (16, False): "USMALLINT",
    (32, False): "UINTEGER",
    (64, False): "UBIGINT",
}
_SQL_TIMESTAMPS: Final[dict[str, str]] = {
    "s": "TIMESTAMP_S",
    "ms": "TIMESTAMP_MS",
    "us": "TIMESTAMP",
    "ns": "TIMESTAMP_NS",
}


class UnsupportedType(PlanError):
    """A type that Tidegate cannot carry exactly. The message names the type and a type to use instead."""

    def __init__(self, type_: Type, why: str) -> None:
        super().__init__(Problem(place="", reason="UNSUPPORTED_TYPE", message=f"type {type_}: {why}"))


def unit(type_: t.Time | t.Timestamp | t.TimestampTz) -> str:
    """The Arrow unit that holds a type's precision: the coarsest that loses nothing."""
    if not 0 <= type_.precision <= FINEST:
        raise UnsupportedType(type_, f"precisions 0 to {FINEST} can be carried")
    return _UNITS[type_.precision]


def _interval(type_: t.IntervalDay | t.IntervalCompound) -> pa.DataType:
    if type_.precision > 6:
        raise UnsupportedType(type_, "intervals finer than microseconds cannot be carried (precision up to 6)")
    return pa.month_day_nano_interval()


def _decimal(type_: t.Decimal) -> t.Decimal:
    if not (1 <= type_.precision <= 38 and 0 <= type_.scale <= type_.precision):
        raise UnsupportedType(type_, "a decimal must have 1 to 38 digits, and from 0 to as many decimal places")
    return type_


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column of this type outside of DuckDB. Raises `UnsupportedType`."""
    return unroll(_arrow_type, type_)


def _arrow_type(type_: Type) -> Generator[Type, pa.DataType, pa.DataType]:  # noqa: C901  # a line per type
    match type_:
        case t.Boolean():
            return pa.bool_()
        case t.Integer(bits=bits, signed=signed):
            return _ARROW_INTEGERS[bits, signed]
        case t.Float(bits=bits):
            return pa.float32() if bits == 32 else pa.float64()
        case t.String() | t.VarChar() | t.FixedChar():
            return pa.string()
        case t.Binary():
            return pa.binary()
        case t.FixedBinary(length=length):
            return pa.binary(length)
        case t.Decimal():
            return pa.decimal128(_decimal(type_).precision, type_.scale)
        case t.Date():
            return pa.date32()
        case t.Time():
            resolution = unit(type_)
            return pa.time32(resolution) if resolution in ("s", "ms") else pa.time64(resolution)
        case t.Timestamp():
            return pa.timestamp(unit(type_))
        case t.TimestampTz():
            return pa.timestamp(unit(type_), tz="UTC")
        case t.IntervalYear():
            return pa.month_day_nano_interval()
        case t.IntervalDay() | t.IntervalCompound():
            return _interval(type_)
        case t.Uuid():
            return pa.uuid()
        case t.Struct(fields=fields):
            members = []
            for name, field in zip(field_names(type_), fields, strict=True):
                members.append(pa.field(name, (yield field), nullable=field.nullable))
            return pa.struct(members)
        case t.List(element=element):
            return pa.list_(pa.field("item", (yield element), nullable=element.nullable))
        case t.Map(key=key, value=value):
            return pa.map_((yield key), pa.field("value", (yield value), nullable=value.nullable))


def field_names(struct: t.Struct) -> tuple[str, ...]:
    """A struct's field names: the plan's, or f1, f2, ... if it gives none."""
    return struct.names or tuple(f"f{i}" for i in range(1, len(struct.fields) + 1))


def sql_type(type_: Type) -> str:
    """DuckDB's type for values of this type inside a statement. Raises `UnsupportedType`."""
    root = type_
    return unroll(_nested_sql_type, root) if isinstance(type_, t.Nested) else _scalar_sql_type(type_)


def _nested_sql_type(type_: Type) -> Generator[Type, str, str]:
    match type_:
        case t.Struct(fields=fields):
            inner = []
            for i, field in enumerate(fields, 1):
                inner.append(f"f{i} {yield field}")
            return f"STRUCT({', '.join(inner)})"
        case t.List(element=element):
            return f"{yield element}[]"
        case t.Map(key=key, value=value):
            return f"MAP({yield key}, {yield value})"
        case _:
            return _scalar_sql_type(type_)


def _scalar_sql_type(type_: t.Scalar) -> str:  # noqa: C901  # a line per type
    match type_:
        case t.Boolean():
            return "BOOLEAN"
        case t.Integer(bits=bits, signed=signed):
            return _SQL_INTEGERS[bits, signed]
        case t.Float(bits=bits):
            return "FLOAT" if bits == 32 else "DOUBLE"
        case t.String() | t.VarChar() | t.FixedChar():
            return "VARCHAR"
        case t.Binary() | t.FixedBinary():
            return "BLOB"
        case t.Decimal():
            return f"DECIMAL({_decimal(type_).precision},{type_.scale})"
        case t.Date():
            return "DATE"
        case t.Time():
            return "TIME_NS" if unit(type_) == "ns" else "TIME"
        case t.Timestamp():
            return _SQL_TIMESTAMPS[unit(type_)]
        case t.TimestampTz():
            return "TIMESTAMPTZ_NS" if unit(type_) == "ns" else "TIMESTAMPTZ"
        case t.IntervalYear():
            return "INTERVAL"
        case t.IntervalDay() | t.IntervalCompound():
            _interval(type_)
            return "INTERVAL"
        case t.Uuid():
            return "UUID"


def digits(type_: t.Time | t.Timestamp | t.TimestampTz) -> int:
    """The decimal places of a second in DuckDB's type for `type_`. A type with a zone has at least six."""
    count = _UNIT_DIGITS[unit(type_)]
    return count if isinstance(type_, t.Timestamp) else max(count, 6)


def schema(types: Sequence[Type], names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of a plan's root. `names` are flattened depth first, as a plan gives them."""
    left = iter(names)
    fields = []
    for type_ in types:
        name = next(left)
        fields.append(pa.field(name, arrow_type(named(type_, left)), nullable=type_.nullable))
    return pa.schema(fields)


def named(type_: Type, names: Iterator[str]) -> Type:
    """The type with its structs' fields named from a flat, depth-first list."""

    def step(part: Type) -> Generator[Type, Type, Type]:
        match part:
            case t.Struct(fields=fields, nullable=nullable):
                members: list[tuple[str, Type]] = []
                for field in fields:
                    name = next(names)
                    members.append((name, (yield field)))
                return t.Struct(
                    fields=tuple(f for _, f in members), names=tuple(n for n, _ in members), nullable=nullable
                )
            case t.List(element=element, nullable=nullable):
                return t.List(element=(yield element), nullable=nullable)
            case t.Map(key=key, value=value, nullable=nullable):
                return t.Map(key=(yield key), value=(yield value), nullable=nullable)
            case _:
                return part

    return unroll(step, type_)


def unnamed(type_: Type) -> Type:
    """The type with no names for its structs' fields, as it is inside a statement."""

    def step(part: Type) -> Generator[Type, Type, Type]:
        match part:
            case t.Struct(fields=fields):
                members = []
                for field in fields:
                    members.append((yield field))  # noqa: PERF401  # a comprehension cannot yield
                return replace(part, fields=tuple(members), names=())
            case t.List(element=element):
                return replace(part, element=(yield element))
            case t.Map(key=key, value=value):
                return replace(part, key=(yield key), value=(yield value))
            case _:
                return part

    return unroll(step, type_)


def arrow_schema(types: Sequence[Type]) -> pa.Schema:
    """The schema of a relation inside the plan, where columns have no names."""
    return pa.schema([pa.field(f"c{at}", arrow_type(unnamed(type_)), type_.nullable) for at, type_ in enumerate(types)])


def has_struct(type_: Type) -> bool:
    """Tests whether the type contains a struct, so that names matter."""

    def step(part: Type) -> Generator[Type, bool, bool]:
        match part:
            case t.Struct():
                return True
            case t.List(element=element):
                return (yield element)
            case t.Map(key=key, value=value):
                return (yield key) or (yield value)
            case _:
                return False

    return unroll(step, type_)


def ticks_of(time: Type) -> Ticks:
    """The length of a unit of the type."""
    match time:
        case t.Timestamp() | t.TimestampTz():
            return Ticks(10 ** max(_MICROS - time.precision, 0), 10 ** max(time.precision - _MICROS, 0))
        case t.Date():
            return Ticks(_DAY)
        case _:
            return Ticks()


def parts_of_tick(time: Type) -> int:
    """The number of Arrow's units in a unit of the type."""
    if not isinstance(time, t.Time | t.Timestamp | t.TimestampTz):
        return 1
    return int(10 ** (_UNIT_DIGITS[unit(time)] - time.precision))


def instants(type_: t.Time | t.Timestamp | t.TimestampTz) -> range:
    """The values that a type of at most nine digits has in DuckDB, as counts of its units."""
    finest = _MICROS if type_.precision <= _MICROS else FINEST
    parts = 10 ** (finest - type_.precision)
    least, most = (0, _DAY * 10 ** (finest - _MICROS)) if isinstance(type_, t.Time) else (_LEAST[finest], _MOST)
    return range(-(-least // parts), most // parts + 1)
