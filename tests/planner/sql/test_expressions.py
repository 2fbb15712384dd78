"""Expressions as SQL, run by DuckDB on one row."""

import decimal

import duckdb
import pytest

from tidegate.planner import ir
from tidegate.planner import types as t
from tidegate.planner.functions import bind_scalar
from tidegate.planner.sql.expressions import render

BOOLEAN = t.Boolean(nullable=False)


class OneRow:
    """A scope whose columns are literals' SQL."""

    def column(self, index, outer):
        return f"r{outer}.c{index}"

    def subquery(self, relation):
        raise NotImplementedError

    def context(self, variable):
        raise NotImplementedError


def value_of(expression):
    (value,) = duckdb.execute(f"SELECT {render(expression, OneRow())}").fetchone()
    return value


def dec(text, precision, scale):
    return ir.Literal(value=decimal.Decimal(text), type=t.Decimal(precision=precision, scale=scale, nullable=False))


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        ("1.00", "3.00", "0.333333"),
        ("2.00", "3.00", "0.666667"),
        ("-2.00", "3.00", "-0.666667"),
        ("0.05", "0.10", "0.5"),
    ],
)
def test_decimals_are_divided_exactly_and_rounded_half_away_from_zero(dividend, divisor, quotient):
    result = t.Decimal(precision=12, scale=6, nullable=False)
    expression = bind_scalar("divide", None, [dec(dividend, 4, 2), dec(divisor, 4, 2)], output=result)
    assert value_of(expression) == decimal.Decimal(quotient)


def test_a_chain_of_ands_of_any_length_is_one_flat_balanced_condition():
    true = ir.Literal(value=True, type=BOOLEAN)
    condition = true
    for _ in range(5000):
        condition = bind_scalar("and", None, [condition, true])
    assert value_of(condition) is True
