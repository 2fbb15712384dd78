"""Substrait's casts in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .. import ir
from ..functions.argument_types import PARTS
from ..functions.templates.named_values import let
from ..functions.templates.use import error, readable_moment
from ..ir import types as t
from ..ir.arrow_types import sql_type
from ..ir.types import Type

_MICROS: Final = 6
_NANOS: Final = 9
_DUCKDB_PLACES: Final = (0, 3)
"""The places that DuckDB has types of timestamps for, besides microseconds and nanoseconds."""


def cast(sql: str, source: Type, target: Type, on_failure: ir.CastFailure) -> str:
    """`sql`, of type `source`, as `target`.

    A string is cut to the length of a `varchar` or `fixedchar`; a `fixedchar` is padded with blanks. Bytes of another
    length than a `fixedbinary`'s fail, and so do other values that do not fit; if the plan says so, they become null.
    """
    if on_failure is ir.CastFailure.CLAMPED and isinstance(source, t.Decimal) and isinstance(target, t.Decimal):
        return let(sql, lambda value: _clamped(value, source, target))
    match source, target:
        case t.Decimal(), t.Struct():
            return let(sql, _apart)
        case t.Struct(), t.Decimal():
            return let(sql, lambda value: _together(value, target))
    function = "TRY_CAST" if on_failure is ir.CastFailure.NULL else "CAST"
    converted = _converted(sql, source, target, function)
    match target:
        case t.VarChar(length=length):
            within = isinstance(source, t.VarChar | t.FixedChar) and source.length <= length
            return converted if within else f"left({converted}, {length})"
        case t.FixedChar(length=length):
            return f"rpad({converted}, {length}, ' ')"
        case t.FixedBinary(length=length):
            if isinstance(source, t.FixedBinary) and source.length == length:
                return converted
            return let(converted, lambda value: _of_length(value, length, on_failure))
        case _:
            return converted


def _clamped(value: str, source: t.Decimal, target: t.Decimal) -> str:
    """An operand of a comparison, whose other operand may not fit the common type `target`."""
    digits = f"{'9' * (target.precision - target.scale)}.{'9' * target.scale}"
    most, least = (f"CAST('{sign}{digits}' AS {sql_type(target)})" for sign in ("", "-"))
    if (source.precision, source.scale) == (target.precision, target.scale):
        beside = error(f"{digits} is compared with a decimal that has more digits in front of the point")
        return f"CASE WHEN {value} IN ({most}, {least}) THEN {beside} ELSE {value} END"
    beyond = 10 ** (target.precision - target.scale)
    above, below = (f"CAST('{sign}{beyond}' AS {sql_type(source)})" for sign in ("", "-"))
    ends = f"WHEN {value} >= {above} THEN {most} WHEN {value} <= {below} THEN {least}"
    return f"CASE {ends} ELSE CAST({value} AS {sql_type(target)}) END"


def _apart(value: str) -> str:
    """A decimal's whole part and its fraction."""
    whole, fraction = map(sql_type, PARTS.fields)
    parts = f"struct_pack(f1 := CAST(trunc({value}) AS {whole}), f2 := CAST({value} - trunc({value}) AS {fraction}))"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {parts} END"


def _together(value: str, target: t.Decimal) -> str:
    """The decimal of a whole part and a fraction."""
    whole, fraction = (f"struct_extract_at({value}, {at})" for at in (1, 2))
    placed = f"CAST({fraction} AS DECIMAL(38,{target.scale}))"
    wrong = f"{placed} <> {fraction}"
    if (digits := target.precision - target.scale) < 38:
        beyond = f"CAST('{10**digits}' AS DECIMAL(38,0))"
        wrong = f"{wrong} OR {whole} >= {beyond} OR {whole} <= -{beyond}"
    wanted = sql_type(target)
    wide = error(f"the result has more digits than {t.required(target)}")
    return f"CASE WHEN {wrong} THEN {wide} ELSE CAST(CAST({whole} AS {wanted}) + {placed} AS {wanted}) END"


def declared(sql: str, source: Type, target: Type) -> str:
    """A function's result, of type `source`, as the type that the plan declares. A cast may cut a text or a moment;
    here it is an error if something would be cut.
    """
    match source, target:
        case t.Decimal(), t.Decimal() if target.scale < source.scale:
            narrow = cast("{}", source, target, ir.CastFailure.ERROR)
            sql = _checked(
                sql, lambda value: f"{value} <> {narrow.format(value)}", f"has more places than the {target}"
            )
        case ((t.VarChar(length=length) | t.FixedChar(length=length)), t.VarChar(length=most)) if length <= most:
            return sql
        case _, t.VarChar(length=most) | t.FixedChar(length=most):
            sql = _checked(sql, lambda value: f"length({value}) > {most}", f"is longer than the {target}")
            return sql if isinstance(target, t.VarChar) else f"rpad({sql}, {most}, ' ')"
        case ((t.Time() | t.Timestamp() | t.TimestampTz()), (t.Time() | t.Timestamp() | t.TimestampTz())):
            if target.precision < source.precision and type(source) is type(target):
                count, finest = ("epoch_ns", 9) if source.precision > _MICROS else ("epoch_us", _MICROS)
                unit = 10 ** (finest - target.precision)
                sql = _checked(
                    sql, lambda value: f"{count}({value}) % {unit} <> 0", f"has more places than the {target}"
                )
    return cast(sql, source, target, ir.CastFailure.ERROR)


def _checked(sql: str, is_wrong: Callable[[str], str], what: str) -> str:
    wrong = error(f"the result {what} that the plan declares")
    return let(sql, lambda value: f"CASE WHEN {is_wrong(value)} THEN {wrong} ELSE {value} END")


def _converted(sql: str, source: Type, target: Type, function: str) -> str:
    """The value in DuckDB's type. Texts and bytes are each other's UTF-8; DuckDB's own casts would read and write
    escapes.
    """
    wanted = sql_type(target)
    texts = t.is_text(source)
    if texts and wanted == "VARCHAR":
        return sql
    if texts and wanted == "BLOB":
        return f"encode({sql})"
    if isinstance(source, t.Binary | t.FixedBinary) and wanted == "VARCHAR":
        return f"decode({sql})" if function == "CAST" else f"TRY(decode({sql}))"
    if texts and t.is_moment(target):
        sql = readable_moment(sql)
    match source, target:
        case t.List(element=text), t.List(element=moment) if t.is_text(text) and t.is_moment(moment):
            sql = f"list_transform({sql}, lambda moment_text: {readable_moment('moment_text')})"
    for step in _steps(source, target):
        sql = f"{function}({sql} AS {step})"
    return _rounded(f"{function}({sql} AS {wanted})", source, target)


def _rounded(sql: str, source: Type, target: Type) -> str:
    """A moment of DuckDB's type for the target, which may hold more places than the target has. A time of a whole day
    is midnight.
    """
    if not isinstance(target, t.Time | t.Timestamp | t.TimestampTz) or target.precision in (_MICROS, _NANOS):
        return sql
    if isinstance(target, t.Timestamp) and target.precision in _DUCKDB_PLACES:
        return sql  # DuckDB's cast has rounded
    if type(source) is type(target) and source.precision <= target.precision:
        return sql
    count, finest = ("epoch_ns", _NANOS) if target.precision > _MICROS else ("epoch_us", _MICROS)
    unit = 10 ** (finest - target.precision)

    def rounded(value: str) -> str:
        late = f"({count}({value}) + {unit // 2})"
        ticks = f"{late} - (({late} % {unit}) + {unit}) % {unit}"
        if isinstance(target, t.Time):
            nanos = f"({ticks}) * {10 ** (_NANOS - finest)} % {86_400 * 10**_NANOS}"
            return f"CAST(make_timestamp_ns({nanos}) AS {sql_type(target)})"
        moment = f"{'make_timestamp_ns' if finest == _NANOS else 'make_timestamp'}({ticks})"
        is_local = isinstance(target, t.Timestamp)
        return f"CAST({moment} AS {sql_type(target)})" if is_local else f"({moment} AT TIME ZONE 'UTC')"

    return let(sql, rounded)


def _steps(source: Type, target: Type) -> Sequence[str]:
    """The types between two kinds of moments, where DuckDB has no cast from the one to the other."""
    if not isinstance(source, t.Timestamp | t.TimestampTz) or isinstance(target, t.TimestampTz):
        return ()
    fine = source.precision > _MICROS
    clock = () if isinstance(source, t.Timestamp) else ("TIMESTAMP_NS" if fine else "TIMESTAMP",)
    match target:
        case t.Time(precision=precision) if precision > _MICROS and not fine:
            return (*clock, "TIME")
        case t.Time():
            return clock
        case t.Timestamp(precision=0) if fine:
            return (*clock, "TIMESTAMP")
        case t.Timestamp():
            return clock
        case _:
            return ()


def _of_length(value: str, length: int, on_failure: ir.CastFailure) -> str:
    wrong = (
        "NULL"
        if on_failure is ir.CastFailure.NULL
        else error(f"cast to fixedbinary<{length}> of a value of another length")
    )
    return f"CASE WHEN octet_length({value}) <> {length} THEN {wrong} ELSE {value} END"
