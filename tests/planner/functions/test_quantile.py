"""`quantile` against its definition over fractions: every kind of value, boundaries, bins, orders, nulls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import duckdb
import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.functions import bind
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render_measure
from tidegate.planner.sql.literal_sql import literal

from .test_templates import Columns

URN: Final = "extension:io.substrait:functions_arithmetic"
GREATEST: Final = 2**63 - 1
VALUES: Final[Sequence[tuple[t.Type, Sequence[Any]]]] = (
    (t.Integer(bits=8), [127, -128, 3, 4]),
    (t.Integer(bits=64), [GREATEST, -GREATEST - 1, GREATEST - 1, -3, -4, 0]),
    (t.Integer(bits=64), [7]),
    (t.Integer(bits=64, signed=False), [2**64 - 1, 0, 2**64 - 2]),
    (
        t.Decimal(precision=38, scale=2),
        [Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99"), Decimal("0.01")],
    ),
    (t.Decimal(precision=5, scale=0), [Decimal(3), Decimal(-2)]),
    (t.Float(bits=64), [0.5, -1.25, 8.0]),
    (t.Float(bits=64), [float("inf"), float("inf"), 1e308, -1e308]),
    (t.String(), ["d", "a", "c", "b"]),
    (t.Date(), [19_000, 3, -40]),
)
FIRST_AND_LAST: Final = {"NEITHER": (1, -1), "MINIMUM": (0, -1), "MAXIMUM": (1, 0), "BOTH": (0, 0)}


def quantile(values: Sequence[Any], type_: t.Type, bins: int, boundaries: str) -> list[Any]:
    """The definition: ties of integers, digits and positions are rounded to even."""
    first, last = FIRST_AND_LAST[boundaries]
    answers = []
    for boundary in range(first, bins + last + 1):
        position = Fraction(boundary * (len(values) - 1), bins)
        low = values[int(position)]
        high = values[min(int(position) + 1, len(values) - 1)]
        share = position % 1
        match type_:
            case t.Integer():
                answers.append(round(low + (high - low) * share))
            case t.Decimal(scale=scale):
                digits = Fraction(low) + (Fraction(high) - Fraction(low)) * share
                answers.append(Decimal(f"{round(digits * 10**scale)}E-{scale}"))
            case t.Float():
                answers.append(low if low == high or not share else low * float(1 - share) + high * float(share))
            case _:
                answers.append(values[round(position)])
    return answers


def computed(
    connection: duckdb.DuckDBPyConnection,
    type_: t.Type,
    rows: Sequence[Any],
    bins: int,
    boundaries: str = "BOTH",
    *,
    direction: ir.Direction | None = None,
) -> Any:
    column = ir.Field(index=0, type=type_)
    arguments = [boundaries, "EXACT", ir.Literal(value=bins, type=t.Integer(bits=64, nullable=False)), column]
    bound = bind(ir.FunctionKind.AGGREGATE, "quantile", URN, arguments)
    sorts = () if direction is None else (ir.SortKey(expression=column, direction=direction),)
    parts = {"function": bound.function, "arguments": bound.arguments, "type": bound.type, "options": bound.options}
    sql = render_measure(ir.Measure(**parts, sorts=sorts), Columns())
    lines = ", ".join(f"({literal(row, type_)})" for row in rows) or f"({literal(None, type_)})"
    return connection.sql(f"SELECT {sql} FROM (VALUES {lines}) r(c0) WHERE {bool(rows)}").fetchall()[0][0]


@pytest.mark.parametrize("boundaries", FIRST_AND_LAST)
def test_boundaries_between_values_are_interpolated_exactly(
    connection: duckdb.DuckDBPyConnection, boundaries: str
) -> None:
    for type_, values in VALUES:
        for bins in (1, 2, 3, 4, 7):
            expected = quantile(sorted(values), type_, bins, boundaries)
            if isinstance(type_, t.Date):
                expected = [date(1970, 1, 1) + timedelta(days) for days in expected]
            got = computed(connection, type_, values, bins, boundaries)
            assert got == (pytest.approx(expected) if isinstance(type_, t.Float) else expected), (type_, values, bins)


def test_the_order_of_the_plan_is_the_order_of_the_values(connection: duckdb.DuckDBPyConnection) -> None:
    type_, direction = t.Integer(bits=64), ir.Direction.DESC_NULLS_LAST
    got = computed(connection, type_, [1, 9, 5, 2], 3, "NEITHER", direction=direction)
    assert got == quantile([9, 5, 2, 1], type_, 3, "NEITHER") == [5, 2]


def test_a_null_value_makes_the_answer_null(connection: duckdb.DuckDBPyConnection) -> None:
    assert computed(connection, t.Integer(bits=64), [1, None, 3], 2) is None
    assert computed(connection, t.Integer(bits=64), [], 2) is None


@pytest.mark.parametrize("bins", [0, -1, None])
def test_a_number_of_bins_below_one_is_refused(connection: duckdb.DuckDBPyConnection, bins: Any) -> None:
    with pytest.raises(tidegate.PlanError, match="the number of bins must be a constant from 1"):
        computed(connection, t.Integer(bits=64), [1], bins)
