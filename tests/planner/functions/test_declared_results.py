"""The result types that plans declare for functions: kept if they may be true, refused if they are false."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from ...conformance.official_answers import Row
from ...duckdb_oracle import oracle
from .test_templates import SUPPORTED, arguments, rendered, table

SCALAR, AGGREGATE, WINDOW = ir.FunctionKind.SCALAR, ir.FunctionKind.AGGREGATE, ir.FunctionKind.WINDOW
I8, I16, I32, I64 = (t.Integer(bits=bits) for bits in (8, 16, 32, 64))
F32, F64 = t.Float(bits=32), t.Float(bits=64)
TEXT = t.String()
PRICE, WIDE = t.Decimal(precision=7, scale=2), t.Decimal(precision=38, scale=2)
CENTS_CUT = t.Decimal(precision=7, scale=1)
MICROS, MILLIS = t.Timestamp(precision=6), t.Timestamp(precision=3)
ARITHMETIC: Final = "functions_arithmetic"


@pytest.mark.parametrize("name", ["add:i64_i64", "add"])
@pytest.mark.parametrize("false", [I8, I16, I32, t.Integer(bits=64, signed=False), PRICE], ids=str)
def test_a_sum_of_integers_is_no_other_number(name: str, false: t.Type) -> None:
    with pytest.raises(PlanError, match=re.escape(f"add:i64_i64 gives i64?, but the plan declares {false}")):
        bind(SCALAR, name, ARITHMETIC, [I64, I64], output=false)


@pytest.mark.parametrize(
    ("kind", "file", "name", "argument_types", "false"),
    [
        (SCALAR, ARITHMETIC, "add:i64_i64", [I64, I64], F64),
        (SCALAR, ARITHMETIC, "add:fp64_fp64", [F64, F64], F32),
        (SCALAR, ARITHMETIC, "add:fp64_fp64", [F64, F64], I64),
        (SCALAR, "functions_arithmetic_decimal", "add:dec_dec", [PRICE, PRICE], F64),
        (SCALAR, "functions_comparison", "coalesce:any", [I64, I64], I32),
        (AGGREGATE, ARITHMETIC, "sum:i64", [I64], I32),
        (AGGREGATE, ARITHMETIC, "avg:i64", [I64], F64),
        (AGGREGATE, "functions_arithmetic_decimal", "sum:dec", [PRICE], I64),
        (AGGREGATE, "functions_aggregate_generic", "count:any", [TEXT], F64),
        (WINDOW, ARITHMETIC, "row_number:", [], F64),
        (AGGREGATE, "functions_arithmetic_decimal", "sum:dec", [PRICE], t.Decimal(precision=38, scale=1)),
        (SCALAR, "functions_arithmetic_decimal", "multiply:dec_dec", [PRICE, PRICE], t.Decimal(precision=14, scale=2)),
        (SCALAR, "functions_datetime", "add:pts_iday", [MICROS, t.IntervalDay()], t.Date()),
        (SCALAR, "functions_comparison", "coalesce:any", [t.List(element=I64)] * 2, t.List(element=I32)),
        (SCALAR, "functions_comparison", "coalesce:any", [t.List(element=PRICE)] * 2, t.List(element=CENTS_CUT)),
        (
            SCALAR,
            "functions_comparison",
            "coalesce:any",
            [t.Struct(fields=(MICROS,))] * 2,
            t.Struct(fields=(t.Date(),)),
        ),
    ],
)
def test_a_type_that_changes_values_is_refused(
    kind: ir.FunctionKind, file: str, name: str, argument_types: Sequence[t.Type], false: t.Type
) -> None:
    with pytest.raises(PlanError, match="but the plan declares") as refused:
        bind(kind, name, file, argument_types, output=false, plan_path="relations[0]")
    (problem,) = refused.value.problems
    assert (problem.reason, problem.place) == ("WRONG_RESULT_TYPE", "relations[0]")


@pytest.mark.parametrize(
    ("kind", "file", "name", "argument_types", "declared"),
    [
        (AGGREGATE, "functions_arithmetic_decimal", "sum:dec", [PRICE], PRICE),
        (AGGREGATE, "functions_aggregate_generic", "count:any", [I64], I32),
        (SCALAR, "functions_string", "char_length:str", [TEXT], I32),
        (SCALAR, "functions_string", "concat:vchar", [t.VarChar(length=3)] * 2, t.VarChar(length=4)),
        (SCALAR, "functions_comparison", "coalesce:any", [MICROS, MICROS], t.Timestamp(precision=9)),
    ],
)
def test_a_decimal_a_text_or_a_count_may_be_declared_narrower(
    kind: ir.FunctionKind, file: str, name: str, argument_types: Sequence[t.Type], declared: t.Type
) -> None:
    assert t.nullable(bind(kind, name, file, argument_types, output=declared).type) == declared


def test_a_producers_own_function_has_its_producers_result_type() -> None:
    assert bind(AGGREGATE, "avg", None, [I64], output=F64).function.signature == "avg:fp64"
    assert bind(SCALAR, "power", None, [I64, I64], output=F64).type == F64


@pytest.mark.parametrize(
    ("name", "argument_types", "false"),
    [
        ("sqrt", [F64], I64),
        ("sqrt", [F64], PRICE),
        ("add", [PRICE, PRICE], I64),
        ("coalesce", [MICROS, MICROS], t.Date()),
    ],
)
def test_a_producers_own_function_drops_no_part_of_its_result(
    name: str, argument_types: Sequence[t.Type], false: t.Type
) -> None:
    with pytest.raises(PlanError, match="but the plan declares"):
        bind(SCALAR, name, None, argument_types, output=false)


@pytest.mark.parametrize(
    ("name", "false"),
    [
        ("make_array", t.List(element=t.Date())),
        ("make_array", t.List(element=t.Boolean())),
        ("struct", t.Struct(fields=(t.Date(),))),
        ("struct", t.Struct(fields=(I64, I64))),
    ],
)
def test_a_nested_value_is_declared_as_what_it_is_made_of(name: str, false: t.Type) -> None:
    with pytest.raises(PlanError, match="but the plan declares") as refused:
        bind_scalar(name, None, [ir.Literal(value=1, type=I64)], output=false)
    assert refused.value.problems[0].reason == "WRONG_RESULT_TYPE"


@pytest.mark.parametrize(("digits", "fits"), [("1.50", True), ("1.55", False)])
def test_a_decimal_with_more_places_than_the_plan_declares_is_not_rounded(digits: str, fits: bool) -> None:
    price = ir.Literal(value=Decimal(digits), type=PRICE)
    call = bind_scalar("coalesce", None, [price, price], output=t.Decimal(precision=9, scale=1))
    with oracle() as connection:
        query = f"SELECT {render(call, Row())}"
        if fits:
            assert connection.sql(query).fetchall() == [(Decimal(digits),)]
        else:
            with pytest.raises(duckdb.Error, match="more places than the"):
                connection.sql(query).fetchall()


@pytest.mark.parametrize(
    ("declared", "texts", "expected"),
    [
        (t.VarChar(length=4), ("ab", "cd"), "abcd"),
        (t.VarChar(length=4), ("ab", "cde"), None),
        (t.FixedChar(length=5), ("ab", "cd"), "abcd "),
        (t.FixedChar(length=3), ("ab", "cd"), None),
    ],
)
def test_a_text_longer_than_the_plan_declares_is_not_cut(
    declared: t.Type, texts: Sequence[str], expected: str | None
) -> None:
    arguments = [ir.Literal(value=text, type=TEXT) for text in texts]
    call = bind_scalar("concat:str", "functions_string", arguments, output=declared)
    with oracle() as connection:
        query = f"SELECT {render(call, Row())}"
        if expected is not None:
            assert connection.sql(query).fetchall() == [(expected,)]
        else:
            with pytest.raises(duckdb.Error, match=re.escape(f"longer than the {declared} that the plan declares")):
                connection.sql(query).fetchall()


@pytest.mark.parametrize("kind", [t.Time, t.Timestamp, t.TimestampTz])
@pytest.mark.parametrize("micros", [5_000, 5_001, -5_000, -5_001])
def test_a_moment_with_more_places_than_the_plan_declares_is_not_cut(kind: Any, micros: int) -> None:
    value = micros % 86_400_000_000 if kind is t.Time else micros
    moment = ir.Literal(value=value, type=kind(precision=6))
    call = bind_scalar("coalesce:any", "functions_comparison", [moment, moment], output=kind(precision=3))
    with oracle() as connection:
        query = f"SELECT epoch_us({render(call, Row())})"
        if micros % 1_000 == 0:
            assert connection.sql(query).fetchall() == [(value,)]
        else:
            with pytest.raises(duckdb.Error, match="more places than the"):
                connection.sql(query).fetchall()


DECIMALS: Final = [
    (implementation, bound)
    for implementation in SUPPORTED
    for bound in [bind(implementation.kind, implementation.signature, implementation.urn, arguments(implementation))]
    if isinstance(bound.type, t.Decimal)
]


@pytest.mark.parametrize(("implementation", "bound"), DECIMALS, ids=lambda value: getattr(value, "signature", ""))
def test_a_decimal_is_of_exactly_the_digits_that_the_plan_declares(implementation: Any, bound: Any) -> None:
    declared = t.Decimal(precision=bound.type.scale + 3, scale=bound.type.scale + 1)
    operands = arguments(implementation)
    narrow = bind(implementation.kind, implementation.signature, implementation.urn, operands, output=declared)
    with oracle() as connection:
        result = connection.sql(f"SELECT {rendered(implementation, narrow)} AS x FROM {table(operands)}")
        assert str(result.types[0]) == f"DECIMAL({declared.precision},{declared.scale})"


def total(*prices: str) -> list[Decimal | None]:
    """The sum of decimal(7,2), which the plan declares a decimal(7,2) as well."""
    price = {"decimal": {"precision": 7, "scale": 2, "nullability": "NULLABILITY_NULLABLE"}}
    column = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
    base = {"names": ["x"], "struct": {"types": [price], "nullability": "NULLABILITY_REQUIRED"}}
    measure = {
        "functionReference": 1,
        "arguments": [{"value": column}],
        "outputType": price,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    read = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    document = {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_arithmetic_decimal"}],
        "extensions": [{"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": 1, "name": "sum:dec"}}],
        "relations": [
            {"root": {"names": ["x"], "input": {"aggregate": {"input": read, "measures": [{"measure": measure}]}}}}
        ],
    }
    rows = pa.table({"x": pa.array(map(Decimal, prices), pa.decimal128(7, 2))})
    with tidegate.local() as client, client.create_task(PlanBytes(json=json.dumps(document))) as task:
        answer = task.run_epoch({"t": rows}).table()
    assert answer.schema.types == [pa.decimal128(7, 2)]
    return answer["x"].to_pylist()


def test_a_sum_is_computed_wider_than_the_plan_declares_it() -> None:
    assert total("99999.99", "99999.99", "-99999.99") == [Decimal("99999.99")]


def test_a_sum_that_does_not_fit_its_declared_type_is_an_error() -> None:
    with pytest.raises(tidegate.TaskFailed, match=r"199999\.98"):
        total("99999.99", "99999.99")


@pytest.mark.parametrize("overflow", ["SILENT", "SATURATE"])
@pytest.mark.parametrize(
    ("file", "name", "type_", "declared"),
    [
        ("functions_arithmetic_decimal", "sum:dec", PRICE, PRICE),
        ("functions_aggregate_generic", "count:any", I64, I32),
    ],
)
def test_a_narrower_type_is_refused_where_the_plan_asks_for_another_value_in_place_of_an_error(
    file: str, name: str, type_: t.Type, declared: t.Type, overflow: str
) -> None:
    with pytest.raises(PlanError, match=f"option overflow = {overflow} is not supported") as refused:
        bind(AGGREGATE, name, file, [type_], output=declared, options={"overflow": [overflow]})
    assert refused.value.problems[0].reason == "UNSUPPORTED_OPTION"
    either = bind(AGGREGATE, name, file, [type_], output=declared, options={"overflow": [overflow, "ERROR"]})
    assert t.nullable(either.type) == declared
