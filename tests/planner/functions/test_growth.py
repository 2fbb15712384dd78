"""Bounds on the bytes that functions make, against the values that DuckDB makes."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from tests.bare_statements import runnable
from tidegate.planner import ir
from tidegate.planner.functions import bind
from tidegate.planner.functions.growth import RULES, Size, is_variable
from tidegate.planner.functions.templates import TABLES
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import sql_type
from tidegate.planner.sql.expression_writer import render
from tidegate.planner.sql.growth_guards import NARROW, Guards, Passing
from tidegate.proto.errors import PlanError

from ...searching import SEARCHES
from .test_templates import SUPPORTED, Columns, arguments

OVERHEAD = 256
"""Arrow's offsets and masks."""
TEXTS = ("", "a", "a,b-c d" * 9, "ÄßŉȺ words of a text" * 40)
NUMBERS = (-3, 0, 2, 700)


def test_every_rule_is_one_of_a_function_that_there_is() -> None:
    assert RULES.keys() <= TABLES[ir.FunctionKind.SCALAR].keys()


def values(type_):
    match type_:
        case t.String() | t.VarChar() | t.FixedChar():
            return [f"'{text}'" for text in TEXTS]
        case t.Binary() | t.FixedBinary():
            return [f"encode('{text}')" for text in TEXTS]
        case t.Integer() | t.Float():
            return [str(number) for number in NUMBERS]
        case t.List(element=element):
            items = values(element)
            return ["[]", f"[{items[-1]}]", f"[{', '.join(items)}]", f"[{', '.join(items * 60)}]"]
        case _:
            return ["NULL"]


@pytest.mark.parametrize(
    "implementation",
    [overload for overload in SUPPORTED if overload.kind is ir.FunctionKind.SCALAR],
    ids=lambda implementation: f"{implementation.file}-{implementation.signature}",
)
def test_a_function_makes_no_more_bytes_than_its_bound(implementation, connection) -> None:
    bound = bind(implementation.kind, implementation.signature, implementation.urn, arguments(implementation))
    call = ir.Call(function=bound.function, arguments=bound.arguments, type=bound.type)
    columns = {at.index: at.type for at in arguments(implementation) if isinstance(at, ir.Field)}
    if not is_variable(call.type) or not columns:
        return
    size = Guards("", ("r.c0",), None).size([call], lambda expression, _: render(expression, Columns()))
    most = f"{NARROW}" if size is None else size.sql()
    compared = 0
    for row in itertools.islice(itertools.product(*map(values, columns.values())), 0, 64, 1 if SEARCHES else 3):
        fields = (
            f"CAST({value} AS {sql_type(type_)}) AS c{at}"
            for (at, type_), value in zip(columns.items(), row, strict=True)
        )
        statement = f"SELECT {render(call, Columns())} AS x, {most} AS y FROM (SELECT {', '.join(fields)}) AS r"
        try:
            with runnable(statement, connection) as sql:
                table = connection.sql(sql).to_arrow_table()
        except (duckdb.Error, UnicodeDecodeError):  # the error quotes bytes that are no text
            continue
        compared += 1
        assert table["x"].nbytes <= table["y"][0].as_py() + OVERHEAD, row
    assert compared


def literal(value: object) -> ir.Literal:
    return ir.Literal(value=value, type=t.String() if isinstance(value, str) else t.Integer(bits=64))


def called(name: str, *arguments: ir.Expression) -> ir.Call:
    bound = bind(ir.FunctionKind.SCALAR, name, None, arguments)
    return ir.Call(function=bound.function, arguments=bound.arguments, type=bound.type)


def guarded(call: ir.Call, passing: Passing | None = None) -> Size | None:
    return Guards("", ("r.c0",), passing).size([call], lambda expression, _: render(expression, Columns()))


TEXT = ir.Field(index=0, type=t.String())


@pytest.mark.parametrize("around", [None, "concat", "char_length"])
def test_a_large_constant_is_refused(around: str | None) -> None:
    call = called("repeat", literal("x" * 1_000), literal(2_000))
    if around is not None:  # DuckDB computes constants inside of other expressions, too
        call = called(around, *([TEXT] if around == "concat" else []), call)
    with pytest.raises(PlanError, match="makes a constant of up to 2,000,000 bytes") as failure:
        guarded(call)
    assert failure.value.reason == "PLAN_TOO_LARGE"


def test_what_constants_add_to_each_row_is_guarded() -> None:
    assert guarded(called("concat", TEXT, literal("x" * 1_000)), Passing()) is None
    long = guarded(called("concat", TEXT, literal("x" * 5_000)), Passing())
    assert long is not None
    assert long.constant >= 5_000
    passing = Passing()
    several = [guarded(called("concat", TEXT, literal("x" * 1_500)), passing) for _ in range(3)]
    assert [size is None for size in several] == [True, True, False]
