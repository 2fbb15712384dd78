"""Class of bug: values that are compared, or chosen from, in a decimal type of 38 digits that does not hold them all. A
comparison is exact all the same, and a value is an error only where it is the result.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.planner import ir
from tidegate.planner.functions import bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render
from tidegate.planner.sql.literal_sql import literal
from tidegate.proto.errors import TaskFailed

from ...bare_statements import runnable
from ...searching import tries
from ..decode.plans import TRUE, Node, call, encode, field, plan, project, table
from .test_meaning import OneColumn

CONNECTION: Final = duckdb.connect(config={"threads": 1})
SHAPES: Final = ((38, 0), (38, 38), (38, 37), (38, 10), (38, 2), (19, 0), (9, 9), (5, 2))
WIDE, FINE = "9" * 37, f"0.5{'0' * 36}1"
"""A value of a decimal<38,0> that no decimal of 38 places holds, and one of a decimal<38,38>."""

Value: TypeAlias = tuple[Decimal | int | None, t.Decimal | t.Integer]


@st.composite
def values(draw: st.DrawFn, *, nullable: bool = True) -> Value:
    shape = draw(st.sampled_from((*SHAPES, None)))
    if shape is None:
        return draw(st.sampled_from([0, 1, -1, 2**63 - 1]) | st.integers(-99, 99)), t.Integer(bits=64)
    type_ = t.Decimal(precision=shape[0], scale=shape[1])
    if nullable and draw(st.integers(0, 9)) == 0:
        return None, type_
    length = draw(st.integers(1, type_.precision))
    digits = draw(st.sampled_from([0, 1, 5, 10 ** (length - 1), 10**length - 1]) | st.integers(0, 10**length - 1))
    digits *= draw(st.sampled_from([1, -1]))
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -type_.scale)), type_


def answer(name: str, arguments: Sequence[Value]) -> tuple[Any, t.Type]:
    fields = [ir.Field(index=at, type=type_) for at, (_, type_) in enumerate(arguments)]
    call = bind_scalar(name, None, fields)
    row = ", ".join(f"{literal(value, type_)} AS c{at}" for at, (value, type_) in enumerate(arguments))
    with runnable(f"SELECT {render(call, OneColumn())} FROM (SELECT {row}) r", CONNECTION) as statement:
        ((got,),) = CONNECTION.sql(statement).fetchall()
    return got, call.type


def by_definition(name: str, numbers: Sequence[Fraction | None]) -> Fraction | bool | None:
    known = [number for number in numbers if number is not None]
    match name:
        case "between":
            return numbers[1] <= numbers[0] <= numbers[2] if len(known) == len(numbers) else None
        case "nullif":
            return None if len(known) == len(numbers) and known[0] == known[1] else numbers[0]
        case "coalesce":
            return next(iter(known), None)
        case "least_skip_null" | "greatest_skip_null" if not known:
            return None
        case "least" | "greatest" if len(known) < len(numbers):
            return None
    return min(known) if name.startswith("least") else max(known)


CHOICES: Final = ("least", "greatest", "least_skip_null", "greatest_skip_null", "nullif", "coalesce")


@settings(max_examples=tries(200), deadline=None)
@given(arguments=st.tuples(values(), values(), values()), name=st.sampled_from(("between", *CHOICES)))
def test_a_function_that_compares_values_is_exact_where_its_result_fits(
    arguments: tuple[Value, ...], name: str
) -> None:
    arguments = arguments[:2] if name == "nullif" else arguments
    wanted = by_definition(name, [None if value is None else Fraction(value) for value, _ in arguments])
    try:
        got, type_ = answer(name, arguments)
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        assert name != "between"
        assert wanted is not None
        assert abs(wanted) >= 1
    else:
        assert (Fraction(got) if isinstance(got, Decimal | int) and name != "between" else got) == wanted
        assert isinstance(type_, t.Decimal | t.Integer | t.Boolean)


@pytest.mark.parametrize(("name", "fitting"), [("least", True), ("greatest", False), ("nullif", False)])
def test_a_value_is_an_error_only_where_it_is_the_result(name: str, fitting: bool) -> None:
    arguments = [(Decimal(WIDE), t.Decimal(precision=38, scale=0)), (Decimal(FINE), t.Decimal(precision=38, scale=38))]
    if fitting:
        assert answer(name, arguments)[0] == Decimal(FINE)
    else:
        with pytest.raises(duckdb.Error, match="the result has more digits than decimal<38,38>"):
            answer(name, arguments)


@pytest.mark.parametrize("name", ["equal", "lt", "between", "least", "greatest", "nullif"])
def test_an_integer_stands_beside_a_decimal_of_38_places(name: str) -> None:
    fine, integer = (Decimal(FINE), t.Decimal(precision=38, scale=38)), (3, t.Integer(bits=64))
    wanted = {"equal": False, "lt": True, "between": False, "least": Decimal(FINE), "nullif": Decimal(FINE)}
    arguments = [fine, integer, integer][: 3 if name == "between" else 2]
    if name == "greatest":
        with pytest.raises(duckdb.Error, match="the result has more digits than decimal<38,38>"):
            answer(name, arguments)
    else:
        assert answer(name, arguments)[0] == wanted[name]


# ------------------------------------------------------------------------------------- IN, CASE x WHEN, subqueries

ROWS: Final = pa.table(
    {
        "a": pa.array([Decimal(WIDE), Decimal(7), Decimal(0), None, Decimal(3)], pa.decimal128(38, 0)),
        "b": pa.array([Decimal(FINE), Decimal(0), Decimal(0), Decimal(0), Decimal("0.3")], pa.decimal128(38, 38)),
    }
)


def decimal(scale: int) -> Node:
    return {"decimal": {"precision": 38, "scale": scale, "nullability": "NULLABILITY_NULLABLE"}}


def number(value: str, scale: int) -> Node:
    encoded = base64.b64encode(int(Fraction(value) * 10**scale).to_bytes(16, "little", signed=True)).decode()
    return {"literal": {"decimal": {"value": encoded, "precision": 38, "scale": scale}}}


TABLE: Final = table(decimal(0), decimal(38))
B: Final = project(TABLE, field(1), common={"emit": {"outputMapping": [2]}})
FALSE: Final[Node] = {"literal": {"boolean": False}}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ({"singularOrList": {"value": field(0), "options": [field(1)]}}, [False, False, True, None, False]),
        (
            {"singularOrList": {"value": field(0), "options": [number(WIDE, 0), number("0.3", 38)]}},
            [True, False, False, None, False],
        ),
        (
            {"singularOrList": {"value": field(1), "options": [number(WIDE, 0), number("0.3", 38)]}},
            [False, False, False, False, True],
        ),
        (
            {"multiOrList": {"value": [field(0), field(1)], "options": [{"fields": [field(1), field(0)]}]}},
            [False, False, True, None, False],
        ),
        (
            {
                "switchExpression": {
                    "match": field(1),
                    "ifs": [
                        {"if": number(value, 0)["literal"], "then": then}
                        for value, then in ((WIDE, FALSE), ("0", TRUE))
                    ],
                    "else": FALSE,
                }
            },
            [False, True, True, True, False],
        ),
        ({"subquery": {"inPredicate": {"needles": [field(0)], "haystack": B}}}, [False, False, True, None, False]),
        (
            {"subquery": {"setComparison": {"reductionOp": 2, "comparisonOp": 4, "left": field(0), "right": B}}},
            [True, True, False, None, True],
        ),
    ],
    ids=["columns", "wide_literal", "wide_literal_beside_a_fine_column", "rows", "switch", "in_subquery", "all"],
)
def test_values_of_plans_are_compared_exactly(expression: Node, wanted: list[bool | None]) -> None:
    written = encode(plan(project(TABLE, expression, common={"emit": {"outputMapping": [2]}}), ["x"]))
    with tidegate.local() as client:
        assert client.query(written, {"t": ROWS})["x"].to_pylist() == wanted


def test_a_result_without_room_is_an_error_in_tidegate_s_words() -> None:
    first = project(TABLE, call("coalesce", field(0), field(1)), common={"emit": {"outputMapping": [2]}})
    with tidegate.local() as client, pytest.raises(TaskFailed, match=r"does not fit decimal<38,38>"):
        client.query(encode(plan(first, ["x"])), {"t": ROWS})
