"""Literal values as SQL: typed, exact, and quoted if they are text."""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Generator
from typing import Any

from ...operators.core import quoting
from ..ir import types as t
from ..ir.arrow_types import UnsupportedType, digits, sql_type
from ..ir.types import Type
from ..ir.walk import unroll


def literal(value: object, type_: Type) -> str:
    """A constant of exactly `sql_type(type_)`. `ir.Literal` describes the values."""
    return unroll(_literal, (value, type_))


def _literal(node: tuple[Any, Type]) -> Generator[tuple[Any, Type], str, str]:  # noqa: C901  # a line per type
    value, type_ = node
    if value is None:
        return f"CAST(NULL AS {sql_type(type_)})"
    match type_:
        case t.Boolean():
            return "true" if value else "false"
        case t.Integer(bits=32):
            return str(int(value)) if value >= 0 and type_.signed else f"CAST({int(value)} AS {sql_type(type_)})"
        case t.Integer():
            return f"CAST({int(value)} AS {sql_type(type_)})"
        case t.Float():
            return f"CAST({_float(value)} AS {sql_type(type_)})"
        case t.String() | t.VarChar() | t.FixedChar():
            return quoting.text(value)
        case t.Binary() | t.FixedBinary():
            return f"from_hex('{value.hex()}')"
        case t.Decimal():
            return f"CAST('{decimal.Decimal(value):f}' AS {sql_type(type_)})"
        case t.Date():
            return f"make_date({int(value)})"
        case t.Time() | t.Timestamp() | t.TimestampTz():
            return _moment(value, type_)
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            return _interval(value, type_)
        case t.Uuid():
            return f"CAST('{uuid.UUID(bytes=value)}' AS UUID)"
        case t.Struct(fields=fields):
            parts = []
            for i, (field, part) in enumerate(zip(fields, value, strict=True), 1):
                parts.append(f"f{i} := {yield part, field}")
            return f"struct_pack({', '.join(parts)})"
        case t.List(element=element):
            items = []
            for item in value:
                items.append((yield item, element))  # noqa: PERF401  # a comprehension cannot yield
            return f"CAST([{', '.join(items)}] AS {sql_type(type_)})"
        case t.Map(key=key_type, value=value_type):
            keys, values = [], []
            for key, item in value:
                keys.append((yield key, key_type))
                values.append((yield item, value_type))
            return f"CAST(map([{', '.join(keys)}], [{', '.join(values)}]) AS {sql_type(type_)})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "'nan'"
    if math.isinf(value):
        return "'inf'" if value > 0 else "'-inf'"
    return f"'{value!r}'"


def _moment(value: int, type_: t.Time | t.Timestamp | t.TimestampTz) -> str:
    """A time or timestamp from its count of units, scaled to the units of DuckDB's type."""
    wanted = digits(type_)
    scaled = int(value) * 10 ** max(0, wanted - type_.precision)
    match type_:
        case t.Time():
            seconds, fraction = divmod(scaled, 10**wanted)
            minutes, second = divmod(seconds, 60)
            hour, minute = divmod(minutes, 60)
            return f"CAST('{hour:02}:{minute:02}:{second:02}.{fraction:0{wanted}}' AS {sql_type(type_)})"
        case t.Timestamp():
            if wanted == 9:
                return f"make_timestamp_ns({scaled})"
            return f"CAST(make_timestamp({scaled * 10 ** (6 - wanted)}) AS {sql_type(type_)})"
        case t.TimestampTz():
            if wanted == 9:
                return f"(make_timestamp_ns({scaled}) AT TIME ZONE 'UTC')"
            return f"make_timestamptz({scaled})"


def _interval(value: tuple[int, int, int], type_: t.IntervalYear | t.IntervalDay | t.IntervalCompound) -> str:
    """An interval from months, days and subseconds. Subseconds are in units of the type's precision."""
    months, days, subseconds = value
    precision = 6 if isinstance(type_, t.IntervalYear) else type_.precision
    if precision > 6:
        raise UnsupportedType(type_, "intervals finer than microseconds cannot be carried (precision up to 6)")
    micros = subseconds * 10 ** (6 - precision)
    return f"(to_months({months}) + to_days({days}) + to_microseconds({micros}))"
