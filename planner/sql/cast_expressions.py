"""Substrait's casts in DuckDB."""

from __future__ import annotations

from .. import ir
from ..functions.templates.use import error, let
from ..ir import types as t
from ..ir.arrow_types import sql_type
from ..ir.types import Type


def cast(sql: str, source: Type, target: Type, on_failure: ir.CastFailure) -> str:
    """`sql`, of type `source`, as `target`.

    A string is cut to the length of a `varchar` or `fixedchar`; a `fixedchar` is padded with blanks. Bytes of another
    length than a `fixedbinary`'s fail, and so do other values that do not fit; if the plan says so, they become null.
    """
    function = "TRY_CAST" if on_failure is ir.CastFailure.NULL else "CAST"
    wanted = sql_type(target)
    converted = _converted(sql, source, wanted, function)
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


def _converted(sql: str, source: Type, wanted: str, function: str) -> str:
    """The value in DuckDB's type. Texts and bytes are each other's UTF-8; DuckDB's own casts would read and write
    escapes.
    """
    texts = isinstance(source, t.String | t.VarChar | t.FixedChar)
    if texts and wanted == "VARCHAR":
        return sql
    if texts and wanted == "BLOB":
        return f"encode({sql})"
    if isinstance(source, t.Binary | t.FixedBinary) and wanted == "VARCHAR":
        return f"decode({sql})" if function == "CAST" else f"TRY(decode({sql}))"
    return f"{function}({sql} AS {wanted})"


def _of_length(value: str, length: int, on_failure: ir.CastFailure) -> str:
    wrong = (
        "NULL"
        if on_failure is ir.CastFailure.NULL
        else error(f"cast to fixedbinary<{length}> of a value of another length")
    )
    return f"CASE WHEN octet_length({value}) <> {length} THEN {wrong} ELSE {value} END"
