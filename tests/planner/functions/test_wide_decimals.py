"""Class of bug: arithmetic on decimals whose steps in between need more than 38 digits, though the result does not.
DuckDB computes such a remainder in floating point, and fails for the other operations.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Final

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render, render_measure
from tidegate.planner.sql.literal_sql import literal

from ...bare_statements import runnable
from ...searching import tries
from .test_meaning import NoColumns, OneColumn

CONNECTION: Final = duckdb.connect(config={"threads": 1})
MOST_DIGITS: Final = 38
SHAPES: Final = ((38, 0), (38, 38), (38, 37), (38, 10), (38, 2), (37, 1), (19, 0), (9, 9), (5, 2), (1, 0))


@st.composite
def decimals(draw: st.DrawFn) -> ir.Literal:
    precision, scale = draw(st.sampled_from(SHAPES))
    length = draw(st.integers(1, precision))
    digits = draw(st.sampled_from([1, 5, 10 ** (length - 1), 10**length - 1]) | st.integers(0, 10**length - 1))
    digits *= draw(st.sampled_from([1, -1]))
    return ir.Literal(
        value=Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale)),
        type=t.Decimal(precision=precision, scale=scale, nullable=False),
    )


def rounded(value: Fraction, scale: int) -> Fraction:
    """Half away from zero."""
    digits = (abs(value) * 10**scale * 2 + 1) // 2
    return Fraction(digits if value >= 0 else -digits, 10**scale)


def by_definition(name: str, x: Fraction, y: Fraction, scale: int) -> Fraction:
    if name == "modulus":
        return x - y * int(x / y)
    return rounded({"add": x + y, "subtract": x - y, "multiply": x * y, "divide": x / y}[name], scale)


def answer(name: str, x: ir.Literal, y: ir.Literal) -> tuple[Decimal, t.Decimal]:
    call = bind_scalar(name, None, [x, y])
    assert isinstance(call.type, t.Decimal)
    with runnable(f"SELECT {render(call, NoColumns())}", CONNECTION) as statement:
        ((value,),) = CONNECTION.sql(statement).fetchall()
    return value, call.type


@settings(max_examples=tries(150), deadline=None)
@given(x=decimals(), y=decimals(), name=st.sampled_from(["add", "subtract", "multiply", "divide", "modulus"]))
def test_a_result_that_fits_is_exact_whatever_its_steps_need(x: ir.Literal, y: ir.Literal, name: str) -> None:
    if not y.value:
        return
    type_ = bind_scalar(name, None, [x, y]).type
    assert isinstance(type_, t.Decimal)
    wanted = by_definition(name, Fraction(x.value), Fraction(y.value), type_.scale)
    if abs(wanted) * 10**type_.scale >= 10**type_.precision:
        with pytest.raises(duckdb.Error):
            answer(name, x, y)
        return
    assert Fraction(answer(name, x, y)[0]) == wanted


@settings(max_examples=tries(50), deadline=None)
@given(digits=st.lists(st.none() | st.integers(0, 10**37) | st.just(-(10**37)), max_size=9))
def test_an_average_is_exact_although_a_longer_sum_would_have_more_than_38_digits(digits: list[int | None]) -> None:
    type_ = t.Decimal(precision=38, scale=10)
    bound = bind(ir.FunctionKind.AGGREGATE, "avg:dec", "functions_arithmetic_decimal", [ir.Field(index=0, type=type_)])
    average = ir.Measure(function=bound.function, arguments=bound.arguments, type=bound.type)
    rows = ", ".join("(NULL)" if value is None else f"('{Decimal(f'{value}E-10'):f}')" for value in digits)
    table = f"(VALUES {rows}) v(c)" if rows else "(SELECT NULL AS c LIMIT 0) v"
    sql = f"SELECT {render_measure(average, OneColumn())} FROM (SELECT CAST(c AS DECIMAL(38,10)) AS c0 FROM {table}) r"
    with runnable(sql, CONNECTION) as statement:
        ((answered,),) = CONNECTION.sql(statement).fetchall()
    assert isinstance(bound.type, t.Decimal)
    known = [Fraction(value, 10**10) for value in digits if value is not None]
    assert (answered and Fraction(answered)) == (rounded(sum(known) / len(known), bound.type.scale) if known else None)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "modulus"])
@pytest.mark.parametrize("scale", [0, 2, 6, 38])
def test_a_null_is_the_answer_beside_a_value_that_does_not_fit(name: str, scale: int) -> None:
    known = ir.Field(index=0, type=t.Decimal(precision=38, scale=0))
    null = ir.Field(index=1, type=t.Decimal(precision=38, scale=scale))
    row = f"VALUES (CAST('{10**38 - 1}' AS DECIMAL(38,0)), CAST(NULL AS DECIMAL(38,{scale})))"
    for arguments in ([known, null], [null, known]):
        call = bind_scalar(name, None, arguments)
        with runnable(f"SELECT {render(call, OneColumn())} FROM ({row}) r(c0, c1)", CONNECTION) as statement:
            assert CONNECTION.sql(statement).fetchall() == [(None,)]


ORDERS: Final = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
    "is_distinct_from": operator.ne,
    "is_not_distinct_from": operator.eq,
}


@settings(max_examples=tries(150), deadline=None)
@given(x=decimals(), y=decimals(), name=st.sampled_from(sorted(ORDERS)))
def test_a_comparison_is_exact_or_names_the_value_of_38_nines(x: ir.Literal, y: ir.Literal, name: str) -> None:
    call = bind_scalar(name, None, [ir.Field(index=0, type=x.type), ir.Field(index=1, type=y.type)])
    wanted = ORDERS[name](Fraction(x.value), Fraction(y.value))
    row = f"VALUES ({literal(x.value, x.type)}, {literal(y.value, y.type)})"
    with runnable(f"SELECT {render(call, OneColumn())} FROM ({row}) r(c0, c1)", CONNECTION) as statement:
        if "9" * MOST_DIGITS in {str(abs(one.value)).replace(".", "").lstrip("0") for one in (x, y)}:
            with suppress(duckdb.InvalidInputException):
                assert CONNECTION.sql(statement).fetchall() == [(wanted,)]
        else:
            assert CONNECTION.sql(statement).fetchall() == [(wanted,)]


def test_the_one_value_that_is_not_compared_is_named() -> None:
    columns = [ir.Field(index=at, type=t.Decimal(precision=38, scale=38 * at)) for at in range(2)]
    row = f"VALUES (CAST(1 AS DECIMAL(38,0)), CAST('0.{'9' * 38}' AS DECIMAL(38,38)))"
    sql = f"SELECT {render(bind_scalar('equal', None, columns), OneColumn())} FROM ({row}) r(c0, c1)"
    with runnable(sql, CONNECTION) as statement, pytest.raises(duckdb.Error, match="is compared with a decimal that"):
        CONNECTION.sql(statement).fetchall()


def test_decimals_that_do_not_fit_each_other_are_compared() -> None:
    columns = [ir.Field(index=at, type=t.Decimal(precision=38, scale=38 * at)) for at in range(2)]
    row = f"VALUES (CAST('{10**37}' AS DECIMAL(38,0)), CAST(0.5 AS DECIMAL(38,38)))"
    with runnable(
        f"SELECT {render(bind_scalar('gt', None, columns), OneColumn())} FROM ({row}) r(c0, c1)", CONNECTION
    ) as statement:
        assert CONNECTION.sql(statement).fetchall() == [(True,)]
