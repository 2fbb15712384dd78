"""Every implementation in the table, with every option value it supports, on columns of its own types."""

import itertools
import re
from pathlib import Path

import duckdb
import pytest

from tests.bare_statements import runnable
from tidegate.planner import ir
from tidegate.planner.functions import Signature, bind, bind_scalar, coverage_rows, registry
from tidegate.planner.functions.function_options import choose
from tidegate.planner.functions.patterns import Bindings, fill
from tidegate.planner.functions.templates import TABLES, entry, use
from tidegate.planner.functions.templates.named_values import MACROS
from tidegate.planner.functions.templates.refused import REFUSED
from tidegate.planner.functions.templates.use import Use
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import sql_type
from tidegate.planner.sql.expression_writer import render, render_measure, render_window_call

NUMBERS = {"P": 6, "Q": 6, "S": 2, "P1": 8, "S1": 2, "P2": 6, "S2": 1, "L1": 5, "L2": 3, "L3": 2}
LITERALS = {
    "precision": (6, 8),
    "n": (4, 64),
    "occurrence": (1, 64),
    "position": (1, 64),
    "group": (0, 64),
    "step": (2, 64),
    "places": (3, 32),
}
FORMAT = ir.Literal(value="%Y-%m-%d", type=t.String(nullable=False))
WORDS = {
    "algorithm": "md5",
    "encoding": "hex",
    "flags": "i",
    "kind": "decimal",
    "unit": "month",
    "direction": "DESC",
    "nulls": "NULLS LAST",
    "pattern": "(a)(b)",
}
SLICES = frozenset({"time_slice", "slice_start", "calendar_slice", "calendar_start"})
CALENDAR = {"unit": "months", "zone": "Europe/Berlin"}
COMPONENTS = {"YEAR": "YEAR", "QUARTER": "MONTH", "HOUR": "HOUR", "IS_LEAP_YEAR": "IS_LEAP_YEAR"}

SUPPORTED = [i for i in registry.everything() if entry(i.kind, i.file, i.name)]


class Columns:
    guards = None

    def column(self, index, outer):
        return f"r.c{index}"

    def subquery(self, relation):
        """A column of a table of its own: a column's number stands in for the relation."""
        return f"SELECT c{relation} FROM s{relation}"

    def context(self, variable):
        raise AssertionError


def type_of(pattern):
    types = {"any": t.Integer(bits=32), "any1": t.Integer(bits=32), "any2": t.String()}
    if pattern.name == "func":
        return None
    if pattern.name == "any":
        return types["any"]
    return t.nullable(fill(pattern, Bindings(types=types, numbers=NUMBERS), {}))


def arguments(implementation):
    """A column for each value; a constant where the implementation wants one; the first enum value it supports."""
    chosen_arguments = []
    parameters = list(implementation.parameters)
    while not implementation.takes(len(parameters)):
        parameters.append(parameters[-1])
    for index, parameter in enumerate(parameters):
        pattern = parameter.pattern
        if pattern is None:
            chosen_arguments.append(COMPONENTS.get(parameter.values[0], parameter.values[0]))
        elif pattern.name == "func":
            parameter_type = t.Integer(bits=32)
            result = ir.Parameter(index=0, type=parameter_type)
            if pattern.parameters[-1].name == "boolean":
                result = ir.Literal(value=True, type=t.Boolean())
            chosen_arguments.append(ir.Lambda(parameters=(parameter_type,), body=result, type=result.type))
        elif parameter.name == "format" or (implementation.name, parameter.name) == ("string_agg", "separator"):
            chosen_arguments.append(FORMAT)
        elif implementation.name in SLICES and parameter.name in CALENDAR:
            chosen_arguments.append(ir.Literal(value=CALENDAR[parameter.name], type=t.String(nullable=False)))
        elif parameter.name in WORDS and pattern.name == "string":
            chosen_arguments.append(ir.Literal(value=WORDS[parameter.name], type=t.String(nullable=False)))
        elif (implementation.kind, parameter.name) == (ir.FunctionKind.AGGREGATE, "fraction"):
            chosen_arguments.append(ir.Literal(value=0.5, type=t.Float(bits=64)))
        elif parameter.name in LITERALS and "L" not in str(type_of(pattern)):
            value, bits = LITERALS[parameter.name]
            chosen_arguments.append(ir.Literal(value=value, type=t.Integer(bits=bits)))
        elif implementation.name in SLICES and parameter.name in ("size", "origin", "like"):
            chosen_arguments.append(ir.Literal(value=7, type=t.required(type_of(pattern))))
        else:
            chosen_arguments.append(ir.Field(index=index, type=type_of(pattern)))
    return chosen_arguments


def choices(implementation):
    """Every supported value of every option, one option at a time."""
    yield {}
    supported = entry(implementation.kind, implementation.file, implementation.name).options
    for option, values in implementation.options.items():
        for value in values:
            if value in supported.get(option, ()):
                yield {option: [value]}


def rendered(implementation, bound):
    parts = {"function": bound.function, "arguments": bound.arguments, "type": bound.type, "options": bound.options}
    match implementation.kind:
        case ir.FunctionKind.SCALAR:
            return render(ir.Call(**parts), Columns())
        case ir.FunctionKind.AGGREGATE:
            return render_measure(ir.Measure(**parts), Columns())
        case ir.FunctionKind.WINDOW:
            return render_window_call(ir.WindowCall(**parts), Columns())


def table(argument_list):
    columns = [a for a in argument_list if isinstance(a, ir.Field)]
    if not columns:
        return "(SELECT 1) r"
    return f"(SELECT {', '.join(f'CAST(NULL AS {sql_type(c.type)}) AS c{c.index}' for c in columns)}) r"


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.mark.parametrize("file", sorted({i.file for i in SUPPORTED}))
def test_every_implementation_is_sql_of_exactly_its_derived_type(file, connection):
    for implementation in (i for i in SUPPORTED if i.file == file):
        for options in choices(implementation):
            argument_list = arguments(implementation)
            name = implementation.signature
            bound = bind(implementation.kind, name, implementation.urn, argument_list, options=options)
            assert bound.function.signature == implementation.signature
            sql = f"SELECT {rendered(implementation, bound)} AS x FROM {table(argument_list)}"
            with runnable(sql, connection) as statement:
                relation = connection.sql(statement)
                relation.fetchall()
            if isinstance(bound.type, t.Decimal):
                (_, precision), (_, scale) = relation.types[0].children
                assert (scale, precision <= bound.type.precision) == (bound.type.scale, True), (name, options)
            else:
                assert relation.types[0] == duckdb.type(sql_type(bound.type)), (name, options)


@pytest.mark.parametrize("file", sorted({i.file for i in SUPPORTED if i.kind is ir.FunctionKind.SCALAR}))
def test_subqueries_are_operands_of_every_function_and_run_once(file):
    """Class of bug: DuckDB has no subqueries in lambdas, and its macros run them as often as they mention them."""
    with duckdb.connect(config={"threads": 1}) as own:
        for implementation in (i for i in SUPPORTED if i.file == file and i.kind is ir.FunctionKind.SCALAR):
            argument_list = arguments(implementation)
            columns = [argument for argument in argument_list if isinstance(argument, ir.Field)]
            for column in columns:
                row = f"CAST(NULL AS {sql_type(column.type)}) AS c{column.index}"
                own.execute(f"CREATE OR REPLACE TABLE s{column.index} AS SELECT {row}")
            asked = [
                ir.Subquery(kind=ir.SubqueryKind.SCALAR, relation=argument.index, type=argument.type)
                if isinstance(argument, ir.Field)
                else argument
                for argument in argument_list
            ]
            bound = bind(implementation.kind, implementation.signature, implementation.urn, asked)
            with runnable(f"EXPLAIN SELECT {rendered(implementation, bound)} FROM range(3)", own) as statement:
                ((_, explained),) = own.execute(statement).fetchall()
            runs = {column.index: len(re.findall(rf"Table: \S*\bs{column.index}\b", explained)) for column in columns}
            assert runs == dict.fromkeys(runs, 1), implementation.signature


def test_no_scalar_template_mentions_an_argument_twice():
    """Nested uses would grow exponentially."""
    for implementation in (i for i in SUPPORTED if i.kind is ir.FunctionKind.SCALAR):
        for options in choices(implementation):
            argument_list = arguments(implementation)
            marks = [a if isinstance(a, str) else f"longer({i}, mark_{i}_x)" for i, a in enumerate(argument_list)]
            bound = bind(implementation.kind, implementation.signature, implementation.urn, argument_list)
            sql = entry(implementation.kind, implementation.file, implementation.name).template(
                Use(
                    name=implementation.name,
                    arguments=tuple(marks),
                    types=tuple(
                        None
                        if isinstance(a, str)
                        else Signature(parameters=a.parameters, result=a.body.type)
                        if isinstance(a, ir.Lambda)
                        else a.type
                        for a in argument_list
                    ),
                    result=bound.type,
                    choices=choose(implementation, options, ""),
                    constants=tuple(getattr(a, "value", None) for a in argument_list),
                )
            )
            for i in range(len(argument_list)):
                assert sql.count(f"mark_{i}_x") <= 1, (implementation.signature, options, sql)


def test_every_official_function_is_either_in_the_table_or_refused_with_a_reason():
    official = {(i.kind, i.file.removeprefix("functions_"), i.name) for i in registry.everything()}
    supported = {(kind, *key) for kind, entries in TABLES.items() for key in entries}
    refused = {(ir.FunctionKind.SCALAR, *key) for key in REFUSED}
    assert supported | refused == official
    assert not supported & refused


def test_the_coverage_table_has_a_row_for_every_function_and_names_refused_options():
    rows = {(row.file, row.kind, row.name): row for row in coverage_rows()}
    assert len(rows) == len({(i.file, i.kind, i.name) for i in registry.everything()})
    assert "rounding=CEILING" in rows["functions_arithmetic", "scalar", "add"].refused_options
    assert not rows["functions_geometry", "scalar", "point"].supported


def test_every_option_in_the_table_is_one_the_official_files_have():
    official = {(i.kind, i.file.removeprefix("functions_"), i.name): set() for i in registry.everything()}
    for i in registry.everything():
        key = (i.kind, i.file.removeprefix("functions_"), i.name)
        official[key] |= set(itertools.chain.from_iterable(i.options.values()))
    for kind, entries in TABLES.items():
        for key, aliases in entries.items():
            if official[(kind, *key)]:
                assert set(itertools.chain.from_iterable(aliases.options.values())) & official[(kind, *key)]


def test_a_zone_of_a_plan_is_a_text_and_no_sql(connection):
    texts = [ir.Literal(value=text, type=t.String(nullable=False)) for text in ("days", "x') + sum(('1")]
    numbers = [ir.Literal(value=number, type=t.Integer(bits=64, nullable=False)) for number in (1, 0)]
    moment = ir.Literal(value=0, type=t.TimestampTz(nullable=False))
    call = bind_scalar("calendar_slice", None, (moment, *numbers, *texts))
    with pytest.raises(duckdb.Error, match=r"Unknown TimeZone 'x'\) \+ sum\(\('1'"):
        connection.execute(f"SELECT {render(call, Columns())}").fetchall()


def test_macros_of_duckdb_that_write_an_argument_twice_are_known() -> None:
    """The names of templates' functions whose long arguments get a name."""
    query = (
        "SELECT function_name, parameters, macro_definition FROM duckdb_functions() WHERE macro_definition IS NOT NULL"
    )
    twice = {
        name
        for name, parameters, body in duckdb.sql(query).fetchall()
        if any(len(re.findall(rf"\b{re.escape(parameter)}\b", body)) > 1 for parameter in parameters)
    }
    folder = Path(use.__file__).parent
    templates = "".join(file.read_text() for file in folder.rglob("*.py"))
    used = {name for name in twice if re.search(rf"\b{name}\(|\"{name}\"", templates)}
    assert used
    assert {name for name in used if not MACROS.search(f"{name}(")} == set()
