"""Answers to official cases: a case is bound, rendered, run by DuckDB, and compared with what it expects."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa

from tests.bare_statements import runnable
from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import sql_type
from tidegate.planner.sql.expression_writer import render, render_measure, render_window_call
from tidegate.planner.sql.literal_sql import literal
from tidegate.proto.errors import PlanError

from .official_cases import ERROR, UNDEFINED, Case, error_failure

UNKNOWN_OPTIONS = frozenset({"spaces_only", "full_unicode", "lookaround"})
"""Options that cases name and no extension file has; what they ask for is what the functions do."""

_DIGITS = {32: 1e-6, 64: 1e-13}


class Row:
    """A scope with one table, `r`, whose columns are c0, c1, ..."""

    guards = None

    def column(self, index, outer):
        return f"r.c{index}"

    def subquery(self, relation):
        raise AssertionError("official cases have no subqueries")

    def context(self, variable):
        raise AssertionError("official cases have no clock")


def failure(case: Case, connection: duckdb.DuckDBPyConnection) -> str | None:
    """Why the case fails; None where it passes."""
    options = {name: values for name, values in case.options.items() if name not in UNKNOWN_OPTIONS}
    try:
        sql, type_ = _query(case, options)
    except PlanError as error:
        return f"refused: {error}"
    try:
        with runnable(sql, connection) as statement:
            relation = connection.sql(statement)
            [computed] = relation.types
            actual = relation.to_arrow_table().column(0)
    except duckdb.Error as error:
        why = error_failure(case, error)
        return why and f"{why} in {sql}"
    if case.expected == UNDEFINED:
        return None
    if case.expected == ERROR:
        return f"no error but {plain(actual)} from {sql}"
    expected = case.expected if isinstance(case.expected, list) else [case.expected]
    if t.nullable(type_) != t.nullable(expected[0].type if expected else type_):
        return f"type {type_}, not {expected[0].type}"
    if not isinstance(type_, t.Decimal) and computed != duckdb.type(sql_type(type_)):
        return f"a {computed} in DuckDB from {sql}"
    wanted = [value.value for value in expected]
    got = plain(actual)
    return None if alike(got, wanted, type_) else f"{got}, not {wanted}, from {sql}"


def _query(case: Case, options: dict[str, list[str]]) -> tuple[str, t.Type]:
    expected = case.expected[0] if isinstance(case.expected, list) and case.expected else case.expected
    output = expected.type if isinstance(expected, ir.Literal) else None
    if case.kind is ir.FunctionKind.SCALAR:
        scalar_call = bind_scalar(case.name, case.urn, case.arguments, options=options)
        return f"SELECT {render(scalar_call, Row())} AS answer", scalar_call.type
    bound = bind(case.kind, case.name, case.urn, case.arguments, options=options, output=output)
    parts = {"function": bound.function, "arguments": bound.arguments, "type": bound.type, "options": bound.options}
    if case.kind is ir.FunctionKind.AGGREGATE:
        written = render_measure(ir.Measure(**parts), Row())
    else:
        order = (ir.SortKey(expression=ir.Field(index=0, type=case.columns[0]), direction=ir.Direction.ASC_NULLS_LAST),)
        written = render_window_call(ir.WindowCall(**parts, sorts=order), Row())
    return f"SELECT {written} AS answer FROM {_table(case)}", bound.type


def _table(case: Case) -> str:
    columns = ", ".join(f"c{i}" for i in range(len(case.columns))) or "c0"
    if not case.rows:
        nulls = ", ".join(f"CAST(NULL AS {sql_type(type_)})" for type_ in case.columns) or "1"
        return f"(SELECT * FROM (VALUES ({nulls})) WHERE false) r({columns})"
    rows = ", ".join(f"({', '.join(literal(v.value, v.type) for v in row)})" for row in case.rows)
    return f"(VALUES {rows}) r({columns})"


def plain(column: pa.ChunkedArray) -> list[object]:
    """Values as `ir.Literal` writes them: counts of units for moments, (months, days, microseconds) for intervals."""
    type_ = column.type
    if pa.types.is_date32(type_):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return column.cast(pa.int64()).to_pylist()
    values = column.to_pylist()
    if pa.types.is_interval(type_):
        return [v if v is None else (v.months, v.days, v.nanoseconds // 1000) for v in values]
    return [tuple(v) if isinstance(v, list) else v for v in values]


def alike(got: object, wanted: object, type_: t.Type) -> bool:
    if isinstance(got, list | tuple) and isinstance(wanted, list | tuple):
        element = type_.element if isinstance(type_, t.List) and isinstance(got, tuple) else type_
        return len(got) == len(wanted) and all(alike(g, w, element) for g, w in zip(got, wanted, strict=True))
    if isinstance(type_, t.Float) and got is not None and wanted is not None:
        return (math.isnan(got) and math.isnan(wanted)) or math.isclose(got, wanted, rel_tol=_DIGITS[type_.bits])
    return got == wanted
