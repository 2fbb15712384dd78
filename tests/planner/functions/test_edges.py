"""Every scalar implementation at the edges of its types, against a reading of its extension file by this module alone.

An argument is null, the least or the greatest value of its type, not a number, or an empty text; it comes from a column
or stands as a literal. `make search` tries every implementation at every edge, CI a part of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any, Final

import duckdb
import pytest
import yaml

from tests.bare_statements import runnable
from tidegate.planner import ir
from tidegate.planner.functions import bind
from tidegate.planner.functions.registry import Implementation
from tidegate.planner.functions.templates import entry
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import sql_type
from tidegate.planner.sql.expression_writer import render
from tidegate.planner.sql.literal_sql import literal

from ...searching import SEARCHES
from .test_templates import SUPPORTED, Columns, arguments

SCALAR: Final = [i for i in SUPPORTED if i.kind is ir.FunctionKind.SCALAR]
FILES: Final = sorted({implementation.file for implementation in SCALAR})
EVERY: Final = 1 if SEARCHES else 8
"""One in so many implementations is tried at the extremes of its types."""

KLEENE: Final = "null is unknown, and the other operand may decide"
SKIPS: Final = "the extension's text leaves nulls out"
OFFICIAL: Final = "an official case has another answer"
TOLERANT: Final = {
    ("functions_boolean", "and"): KLEENE,
    ("functions_boolean", "or"): KLEENE,
    ("functions_boolean", "and_not"): KLEENE,
    ("functions_comparison", "coalesce"): SKIPS,
    ("functions_comparison", "least_skip_null"): SKIPS,
    ("functions_comparison", "greatest_skip_null"): SKIPS,
    ("functions_comparison", "nullif"): "nothing equals null",
    ("functions_string", "concat_ws"): SKIPS,
    ("functions_list", "any_match"): KLEENE,
    ("functions_list", "all_match"): KLEENE,
    ("functions_list", "transform"): "the lambda sees the elements alone",
    ("functions_list", "filter"): "the lambda sees the elements alone",
    ("functions_numbers", "nanvl"): "the second value counts only for NaN",
}
"""Functions that may have a value although an argument is null, each with the reason."""
TOLERANT_ARGUMENTS: Final = {("functions_string", "string_split", 1): OFFICIAL}
"""The same for one argument of a function, by its position."""

ERROR: Final = "an error"
GROWS: Final = frozenset(
    {"array_repeat", "array_resize", "center", "generate_series", "lpad", "overlay", "range", "repeat", "rpad"}
)
"""Functions whose result is as large as a number says."""


@dataclass(frozen=True)
class Declared:
    """The nulls of an implementation's results, as its extension file declares them."""

    mirrors: bool
    may_be_null: bool


@cache
def declared() -> Mapping[tuple[str, str], Sequence[Declared]]:
    """The implementations of all scalar functions, by file and name, in the order of the files."""
    folders = [resources.files("substrait_extensions") / "extensions"]
    folders.append(resources.files("tidegate.planner.functions") / "extensions")
    read: dict[tuple[str, str], list[Declared]] = {}
    for path in (path for folder in folders for path in folder.iterdir()):
        if not path.name.endswith(".yaml"):
            continue
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for function in document.get("scalar_functions") or ():
            for variant in function["impls"]:
                result = str(variant["return"]).strip().splitlines()[-1]
                mirrors = variant.get("nullability", "MIRROR").upper() == "MIRROR"
                outer = result.partition("<")[0] + result.rpartition(">")[2]
                key = path.name.removesuffix(".yaml"), function["name"]
                read.setdefault(key, []).append(Declared(mirrors, "?" in outer))
    return read


def declaration(implementation: Implementation) -> Declared:
    same = [i for i in SCALAR if (i.file, i.name) == (implementation.file, implementation.name)]
    return declared()[implementation.file, implementation.name][same.index(implementation)]


def ordinary(type_: t.Type) -> Any:
    """A value in the middle of the type, with which functions have an answer."""
    match type_:
        case t.Boolean():
            return True
        case t.Integer():
            return 2
        case t.Float():
            return 0.5
        case t.Decimal(scale=scale):
            return Decimal(2).quantize(Decimal(1).scaleb(-scale))
        case t.String() | t.VarChar() | t.FixedChar():
            return "2024-01-02"
        case t.Binary() | t.FixedBinary():
            return b"a" * (type_.length if isinstance(type_, t.FixedBinary) else 1)
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            return (1, 0, 0) if isinstance(type_, t.IntervalYear) else (0, 1, 0)
        case t.List(element=element):
            return (ordinary(element),)
        case t.Map(key=key, value=value):
            return ((ordinary(key), ordinary(value)),)
        case _:
            return 1


def extremes(type_: t.Type) -> Sequence[Any]:
    match type_:
        case t.Integer(bits=bits, signed=signed):
            return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0) if signed else (2**bits - 1, 0)
        case t.Float():
            return math.nan, math.inf, -math.inf, -0.0
        case t.Decimal(precision=precision, scale=scale):
            most = Decimal(10**precision - 1).scaleb(-scale)
            return -most, most
        case t.String() | t.VarChar():
            return ("",)
        case t.Binary():
            return (b"",)
        case t.List():
            return ((),)
        case _:
            return ()


@cache
def usual(implementation: Implementation) -> tuple[Any, ...]:
    """The implementation's arguments, with an ordinary literal for every column."""
    return tuple(
        ir.Literal(value=_zone(implementation, at) or ordinary(value.type), type=t.required(value.type))
        if isinstance(value, ir.Field)
        else value
        for at, value in enumerate(arguments(implementation))
    )


def _zone(implementation: Implementation, at: int) -> str | None:
    return "UTC" if implementation.parameter(at).name == "timezone" else None


@cache
def positions(implementation: Implementation) -> frozenset[int]:
    """The arguments that are values of any kind, neither enums nor lambdas, nor literals that decide the meaning."""
    return frozenset(at for at, value in enumerate(arguments(implementation)) if isinstance(value, ir.Field))


def answer(
    connection: duckdb.DuckDBPyConnection, implementation: Implementation, values: Sequence[Any], *, columns: bool
) -> tuple[str | None, t.Type]:
    """The result as text, and its type. The values come from columns, or stand as literals."""
    fields, rows = [], []
    for at, value in enumerate(values):
        if columns and isinstance(value, ir.Literal) and at in positions(implementation):
            rows.append((at, literal(value.value, value.type)))
            fields.append(ir.Field(index=at, type=value.type))
        else:
            fields.append(value)
    bound = bind(implementation.kind, implementation.signature, implementation.urn, fields)
    assert bound.function.signature == implementation.signature
    call = ir.Call(function=bound.function, arguments=bound.arguments, type=bound.type, options=bound.options)
    table = f" FROM (VALUES ({', '.join(sql for _, sql in rows)})) r({', '.join(f'c{at}' for at, _ in rows)})"
    sql = f"SELECT CAST(CAST({render(call, Columns())} AS {sql_type(bound.type)}) AS VARCHAR){table if rows else ''}"
    try:
        with runnable(sql, connection) as statement:
            return connection.sql(statement).fetchall()[0][0], bound.type
    except (duckdb.InternalException, duckdb.ParserException, duckdb.BinderException):
        raise
    except duckdb.Error:
        return ERROR, bound.type


def tolerates(implementation: Implementation, at: int) -> bool:
    function = implementation.file, implementation.name
    return function in TOLERANT or (*function, at) in TOLERANT_ARGUMENTS


@pytest.mark.parametrize("file", FILES)
def test_a_result_may_be_null_exactly_where_the_extension_says(file: str) -> None:
    """Beyond that a function may give null by an option whose default is NULL, or by what its text says."""
    wrong = []
    for implementation in (i for i in SCALAR if i.file == file):
        says = declaration(implementation)
        known = entry(implementation.kind, file, implementation.name)
        assert known is not None
        by_option = any(
            next((value for value in known.options.get(option, ()) if value in values), "") == "NULL"
            for option, values in implementation.options.items()
        )
        for position in (None, *sorted(positions(implementation))):
            values = list(usual(implementation))
            if position is not None:
                values[position] = replace(values[position], type=t.nullable(values[position].type))
            some_null = any(not isinstance(value, str | ir.Lambda) and value.type.nullable for value in values)
            got = bind(implementation.kind, implementation.signature, implementation.urn, values).type.nullable
            if got != (says.may_be_null or known.may_be_null or by_option or (says.mirrors and some_null)):
                wrong.append((implementation.signature, position, got))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("file", FILES)
def test_a_null_argument_gives_what_the_extension_says(file: str, connection: duckdb.DuckDBPyConnection) -> None:
    wrong = []
    for implementation in (i for i in SCALAR if i.file == file):
        says = declaration(implementation)
        for at in sorted(positions(implementation)):
            values = list(usual(implementation))
            values[at] = ir.Literal(value=None, type=t.nullable(values[at].type))
            for columns in (True, False):
                got, type_ = answer(connection, implementation, values, columns=columns)
                if says.mirrors and not tolerates(implementation, at):
                    good = got is None and type_.nullable
                else:
                    good = got is not None or type_.nullable
                if not good:
                    wrong.append((implementation.signature, at, "column" if columns else "literal", got, str(type_)))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("file", FILES)
def test_a_null_argument_hides_what_is_wrong_with_another(file: str, connection: duckdb.DuckDBPyConnection) -> None:
    wrong = []
    for number, implementation in enumerate(SCALAR):
        if implementation.file != file or number % EVERY or not declaration(implementation).mirrors:
            continue
        for at in sorted(positions(implementation)):
            for other in sorted(positions(implementation) - {at}):
                for extreme in extremes(usual(implementation)[other].type):
                    values = list(usual(implementation))
                    values[at] = ir.Literal(value=None, type=t.nullable(values[at].type))
                    values[other] = replace(values[other], value=extreme)
                    got, _ = answer(connection, implementation, values, columns=True)
                    if got is not None and not tolerates(implementation, at):
                        wrong.append((implementation.signature, at, other, extreme, got))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("file", FILES)
def test_a_column_gives_at_the_extremes_what_a_literal_gives(file: str, connection: duckdb.DuckDBPyConnection) -> None:
    wrong = []
    for number, implementation in enumerate(SCALAR):
        if implementation.file != file or number % EVERY or implementation.name in GROWS:
            continue
        for at in sorted(positions(implementation)):
            for extreme in (ordinary(usual(implementation)[at].type), *extremes(usual(implementation)[at].type)):
                values = list(usual(implementation))
                values[at] = replace(values[at], value=extreme)
                got, type_ = answer(connection, implementation, values, columns=True)
                same, _ = answer(connection, implementation, values, columns=False)
                if repr(got) != repr(same) or (got is None and not type_.nullable):
                    wrong.append((implementation.signature, at, extreme, got, same, str(type_)))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_reason_for_a_value_in_spite_of_nulls_belongs_to_a_function() -> None:
    tolerant = {*TOLERANT, *((file, name) for file, name, _ in TOLERANT_ARGUMENTS)}
    assert tolerant <= {(implementation.file, implementation.name) for implementation in SCALAR}
