"""Expressions as SQL, run by DuckDB on one row."""

import decimal

import duckdb
import pytest

from tests.duckdb_oracle import oracle
from tests.planner.build import values
from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import guarded, render, render_measure, render_window_call
from tidegate.planner.sql.relations.values import select_values
from tidegate.planner.sql.writer import Writer

BOOLEAN = t.Boolean(nullable=False)


class OneRow:
    """A scope whose columns are literals' SQL."""

    guards = None

    def column(self, index, outer):
        return f"r{outer}.c{index}"

    def subquery(self, relation):
        raise NotImplementedError

    def context(self, variable):
        raise NotImplementedError


class Asking(OneRow):
    """A scope in which the SQL of a subquery stands for its relation."""

    def subquery(self, relation):
        return relation


def fetched(sql):
    """On a connection of its own: an open result would be in the way of whoever uses the shared one next."""
    with oracle() as connection:
        return connection.execute(sql).fetchall()


def value_of(expression):
    [(value,)] = fetched(f"SELECT {render(expression, OneRow())}")
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


I32 = t.Integer(bits=32)


def number(value, type_=I32):
    return ir.Literal(value=value, type=type_)


def text(value, type_=t.String()):  # noqa: B008  # a value
    return ir.Literal(value=value, type=type_)


def test_conditions_are_tried_in_order_and_the_missing_else_is_null():
    clauses = tuple((number(value, t.Boolean()), number(i)) for i, value in enumerate([None, False, True, True]))
    assert value_of(ir.IfThen(clauses=clauses, otherwise=None, type=I32)) == 2
    assert value_of(ir.IfThen(clauses=clauses[:2], otherwise=None, type=I32)) is None


def test_a_switch_compares_with_equality_so_null_finds_nothing():
    clauses = ((number(None), text("null")), (number(1), text("one")))
    switch = ir.Switch(match=number(1), clauses=clauses, otherwise=text("none"), type=t.String())
    assert value_of(switch) == "one"
    assert value_of(ir.Switch(match=number(None), clauses=clauses, otherwise=text("none"), type=t.String())) == "none"


@pytest.mark.parametrize(("options", "expected"), [([1, 2], True), ([2, 3], False), ([2, None], None), ([], False)])
def test_a_value_is_one_of_its_options_or_perhaps(options, expected):
    rows = tuple((number(option),) for option in options)
    assert value_of(ir.OneOf(value=(number(1),), options=rows, type=t.Boolean())) is expected


@pytest.mark.parametrize("count", [2, 6, 1_200])
def test_a_value_that_is_looked_for_in_a_list_is_not_computed_where_it_is_not_asked_for(count):
    """Class of bug: DuckDB joins with a list of constants, and computes the value of every row for that."""
    column, bigint = ir.Field(index=0, type=t.String()), t.Integer(bits=64)
    options = tuple((ir.Literal(value=option, type=bigint),) for option in range(count))
    is_listed = ir.OneOf(value=(ir.Cast(operand=column, type=bigint),), options=options, type=t.Boolean())
    is_letter = bind_scalar("equal", None, (column, text("a")))
    of_case = ir.IfThen(clauses=((is_letter, number(None, t.Boolean())),), otherwise=is_listed, type=t.Boolean())
    letter_or_null = ir.IfThen(clauses=((is_letter, number(False, t.Boolean())),), otherwise=None, type=t.Boolean())
    of_coalesce = bind_scalar("coalesce", None, (letter_or_null, is_listed))
    rows = "(SELECT * FROM unnest(['a', '1', '7000']) AS r(c0)) AS r0"
    for expression, of_letter in ((of_case, None), (of_coalesce, False)):
        assert fetched(f"SELECT {render(expression, OneRow())} FROM {rows}") == [(of_letter,), (True,), (False,)]


OPTIONS_OF_TYPES = {
    "numbers": (t.Integer(bits=64), [1, -(2**63), 2**63 - 1, 7], 2),
    "large numbers": (t.Integer(bits=64, signed=False), [0, 2**64 - 1], 5),
    "floats": (t.Float(bits=64), [0.0, 1e300, 0.1, float("inf"), float("nan")], 0.2),
    "decimals": (t.Decimal(precision=38, scale=3), [decimal.Decimal("0.001"), decimal.Decimal(10) ** 34], 1),
    "texts": (t.String(), ["", "a'b", "c\0d", "\x1f", "'); SELECT 1 --"], "a"),
    "bytes": (t.Binary(), [b"", b"\0\xff"], b"\0"),
    "days": (t.Date(), [0, -800_000, 20_000], 1),
    "ids": (t.Uuid(), [bytes(16), bytes(range(16))], bytes(range(1, 17))),
    "times": (t.Timestamp(precision=6), [0, 10**15], 1),
}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("type_", "options", "other"), OPTIONS_OF_TYPES.values(), ids=OPTIONS_OF_TYPES)
def test_many_options_find_the_same_as_few(type_, options, other, nulls, monkeypatch):
    def looked_up():
        values = [*options, *([None] if nulls else [])]
        rows = tuple((ir.Literal(value=option, type=type_),) for option in values)
        sought = (ir.Literal(value=value, type=type_) for value in (*options, other, None))
        return [value_of(ir.OneOf(value=(sought_value,), options=rows, type=t.Boolean())) for sought_value in sought]

    few = looked_up()
    assert few == [*[True] * len(options), None if nulls else False, None]
    monkeypatch.setattr("tidegate.planner.sql.literal_rows.MANY", 1)
    assert looked_up() == few


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("type_", "options", "other"), OPTIONS_OF_TYPES.values(), ids=OPTIONS_OF_TYPES)
def test_many_rows_of_a_virtual_table_are_those_of_few(type_, options, other, nulls, monkeypatch):
    column = [other, *options, *([None] if nulls else [])] * 50
    rows = values([type_, t.Integer(bits=64)], *((value, at) for at, value in enumerate(column)))
    few = fetched(select_values(rows, Writer(scope=OneRow())))
    assert [at for _, at in few] == list(range(len(column)))
    monkeypatch.setattr("tidegate.planner.sql.relations.values.MANY", 1)
    assert repr(fetched(select_values(rows, Writer(scope=OneRow())))) == repr(few)


def test_many_rows_of_a_virtual_table_are_one_text_for_each_column():
    rows = values([I32, t.String()], *((at, f"row {at}") for at in range(2_000)))
    assert select_values(rows, Writer(scope=OneRow())).count("string_split") == 2


def many_numbers(count):
    literals = tuple((ir.Literal(value=number_, type=I32),) for number_ in range(count))
    return ir.OneOf(value=(ir.Field(index=0, type=I32),), options=literals, type=t.Boolean())


def test_many_options_are_one_text_and_leave_the_rows_in_their_order():
    sql = render(many_numbers(2_000), OneRow())
    assert sql.count("CAST(") == 1
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE r0 AS SELECT (i * 7919) % 3000 AS c0 FROM range(3000) t(i)")
        [(_, explained)] = connection.execute(f"EXPLAIN (FORMAT json) SELECT c0 FROM r0 WHERE {sql}").fetchall()
        assert '"MARK"' in explained  # a semi join may be turned round
        rows = connection.execute(f"SELECT c0 FROM r0 WHERE {sql}").fetchall()
        assert rows == connection.execute("SELECT c0 FROM r0 WHERE c0 < 2000 ORDER BY rowid").fetchall()


def test_equations_beside_a_subquery_in_a_lambda_are_joined_by_hash():
    """Class of bug: all terms of the condition went into one lambda, and 20,000 rows a side took half a minute."""
    asked = ir.Subquery(kind=ir.SubqueryKind.SCALAR, relation="SELECT 1", type=I32)
    both = bind_scalar("add", None, [ir.Parameter(index=0, type=I32), asked])
    items = ir.Nested(construct=ir.Construct.LIST, items=(number(1),), type=t.List(element=I32))
    summed = bind_scalar("transform", None, [items, ir.Lambda(parameters=(I32,), body=both, type=both.type)])
    first = ir.NestedField(operand=summed, steps=(ir.ListElement(offset=0),), type=both.type)
    columns = [ir.Field(index=0, outer=outer, type=I32) for outer in range(2)]
    terms = [bind_scalar("equal", None, columns), bind_scalar("is_not_null", None, [first])]
    sql = guarded(bind_scalar("and", None, terms), Asking())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE r0 AS SELECT 1 AS c0; CREATE TABLE r1 AS SELECT 1 AS c0")
        [(_, explained)] = connection.execute(f"EXPLAIN (FORMAT json) SELECT 1 FROM r0, r1 WHERE {sql}").fetchall()
    assert "HASH_JOIN" in explained


def test_many_options_in_a_lambda_are_listed():
    parameter = ir.Parameter(index=0, type=I32)
    sought = ir.OneOf(value=(parameter,), options=many_numbers(2_000).options, type=t.Boolean())
    body = ir.Lambda(parameters=(I32,), body=sought, type=t.Boolean())
    list_ = ir.Literal(value=(1, 5_000), type=t.List(element=I32))
    assert value_of(bind_scalar("transform", None, [list_, body])) == [True, False]


@pytest.mark.parametrize(("offset", "expected"), [(0, 10), (2, 30), (-1, 30), (3, None)])
def test_list_elements_are_counted_from_zero_and_from_behind(offset, expected):
    list_ = ir.Literal(value=(10, 20, 30), type=t.List(element=I32))
    assert value_of(ir.NestedField(operand=list_, steps=(ir.ListElement(offset=offset),), type=I32)) == expected


def test_struct_fields_and_map_values_are_found():
    map_ = t.Map(key=t.String(), value=I32)
    struct = ir.Nested(
        construct=ir.Construct.STRUCT,
        items=(number(1), ir.Literal(value=(("a", 7),), type=map_)),
        type=t.Struct(fields=(I32, map_)),
    )
    steps = (1, ir.MapKey(key=text("a")))
    assert value_of(ir.NestedField(operand=struct, steps=steps, type=I32)) == 7


def test_lambdas_read_their_own_and_enclosing_parameters():
    pairs = t.List(element=t.List(element=I32))
    own, outer = ir.Parameter(index=0, type=I32), ir.Parameter(index=0, type=pairs.element, outer=1)
    count = bind_scalar("cardinality", None, [outer])
    inner = ir.Lambda(
        parameters=(I32,),
        body=bind_scalar("add", None, [own, count], output=t.Integer(bits=64)),
        type=t.Integer(bits=64),
    )
    body = bind_scalar("transform", None, [ir.Parameter(index=0, type=pairs.element), inner])
    outermost = ir.Lambda(parameters=(pairs.element,), body=body, type=body.type)
    bound = bind_scalar("transform", None, [ir.Literal(value=((1, 2), (5,)), type=pairs), outermost])
    assert value_of(bound) == [[3, 4], [6]]


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (text("abcdef"), t.VarChar(length=3), "abc"),
        (text("ab"), t.FixedChar(length=4), "ab  "),
        (text("12.345"), t.Decimal(precision=5, scale=2), decimal.Decimal("12.35")),
        (number(b"ab", t.Binary()), t.FixedBinary(length=2), b"ab"),
    ],
)
def test_a_cast_gives_a_value_of_exactly_the_target(source, target, value):
    assert value_of(ir.Cast(operand=source, type=target)) == value


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (text("x"), I32),
        (number(300), t.Integer(bits=8)),
        (number(b"abc", t.Binary()), t.FixedBinary(length=2)),
        (text("123.4"), t.Decimal(precision=4, scale=2)),
    ],
)
def test_a_cast_that_does_not_fit_fails_or_is_null_as_the_plan_says(source, target):
    assert value_of(ir.Cast(operand=source, type=target, on_failure=ir.CastFailure.NULL)) is None
    with pytest.raises(duckdb.Error):
        value_of(ir.Cast(operand=source, type=target))


def test_a_measure_carries_distinct_order_and_condition():
    class Table(OneRow):
        def column(self, index, outer):
            return f"r.c{index}"

    word, kept = ir.Field(index=0, type=t.String()), ir.Field(index=1, type=t.Boolean())
    bound = bind(ir.FunctionKind.AGGREGATE, "string_agg", None, [word, text("-", t.String(nullable=False))])
    measure = ir.Measure(
        function=bound.function,
        arguments=bound.arguments,
        type=bound.type,
        distinct=True,
        sorts=(ir.SortKey(expression=word, direction=ir.Direction.DESC_NULLS_LAST),),
        condition=kept,
    )
    rows = "(VALUES ('a', true), ('b', true), ('a', true), ('c', false)) r(c0, c1)"
    assert fetched(f"SELECT {render_measure(measure, Table())} FROM {rows}") == [("b-a",)]


def test_a_declared_result_type_is_what_comes_out():
    bound = bind_scalar("char_length", None, [text("abc")], output=t.Integer(bits=32))
    assert fetched(f"SELECT typeof({render(bound, OneRow())})") == [("INTEGER",)]


def test_an_aggregate_is_a_window_function_over_its_frame():
    class Table(OneRow):
        def column(self, index, outer):
            return f"r.c{index}"

    value = ir.Field(index=0, type=I32)
    bound = bind(ir.FunctionKind.WINDOW, "sum", None, [value])
    call = ir.WindowCall(
        function=bound.function,
        arguments=bound.arguments,
        type=bound.type,
        sorts=(ir.SortKey(expression=value, direction=ir.Direction.ASC_NULLS_LAST),),
        lower=ir.Bound(offset=-1),
        upper=ir.Bound(offset=0),
    )
    sql = f"SELECT {render_window_call(call, Table())} FROM (VALUES (1), (2), (4)) r(c0) ORDER BY c0"
    assert fetched(sql) == [(1,), (3,), (6,)]


def test_two_thousand_nested_calls_bind_and_render_without_recursion():
    expression = ir.Field(index=0, type=t.Integer(bits=64))
    for _ in range(2000):
        expression = bind_scalar("add", None, [expression, number(1, t.Integer(bits=64))])
    assert render(expression, OneRow()).count("+") == 2000


@pytest.mark.parametrize(
    ("row", "other", "equal"),
    [((1, 2), (1, 2), True), ((None, 2), (1, 2), None), ((None, 2), (1, 3), False), ((None, None), (None, None), None)],
)
def test_a_null_in_a_row_leaves_open_whether_the_row_is_in_a_list(row, other, equal):
    rows = [tuple(ir.Literal(value=value, type=t.Integer(bits=64)) for value in values) for values in (row, other)]
    assert value_of(ir.OneOf(value=rows[0], options=(rows[1],), type=t.Boolean())) is equal
