"""Every other kind of expression."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.planner.ir.tree import operands

from ..plans import (
    I32,
    I64,
    I64_NULL,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    decode_binary,
    field,
    function,
    number,
    only,
    plan,
    problem,
    problems,
    project,
    table,
    text,
)

BELOW = table(I64, TEXT, I64_NULL)


def expression(node: Node, read: object = decode, names: str = "x") -> ir.Expression:
    """The expression over columns: a required i64, a required string, a nullable i64."""
    root = read(plan(project(BELOW, node, common={"emit": {"outputMapping": [3]}}), [*names])).plan.root  # type: ignore[operator]
    return only(root, ir.Project).expressions[0]


def faults(node: Node) -> list[str]:
    return [problem.reason for problem in problems(plan(project(BELOW, node), [*"abcd"]))]


# --------------------------------------------------------------------------------------------------- functions


def test_a_function_keeps_its_place_and_options() -> None:
    option = {"name": "overflow", "preference": ["ERROR"]}
    decoded_call = only(expression(call("add", field(0), number(1), options=[option])), ir.Call)
    assert decoded_call.options == {"overflow": ("ERROR",)}
    assert decoded_call.plan_path == "relations[0].root.input.project.expressions[0].scalar_function"


def test_old_arguments_are_plain_expressions() -> None:
    decoded_expression = expression(
        {"scalarFunction": {"functionReference": 4, "args": [field(0), number(1)]}}, decode_binary
    )
    assert [type(argument).__name__ for argument in decoded_expression.arguments] == ["Field", "Literal"]


def test_old_enums_are_expressions() -> None:
    declared = [{"extensionFunction": {"functionAnchor": 1, "name": "extract"}}]
    args = [{"enum": {"specified": "YEAR"}}, {"literal": {"date": 3}}]
    node = {"scalarFunction": {"functionReference": 1, "args": args}}
    written = {**plan(project(BELOW, node), [*"abcd"]), "extensions": declared}
    assert decode_binary(written).plan.root.expressions[3].arguments[0] == "YEAR"


def test_enum_arguments_are_strings() -> None:
    declared = [{"extensionFunction": {"functionAnchor": 1, "name": "extract"}}]
    arguments = [{"enum": "YEAR"}, {"value": {"literal": {"date": 3}}}]
    node = {"scalarFunction": {"functionReference": 1, "arguments": arguments}}
    written = {**plan(project(BELOW, node), [*"abcd"]), "extensions": declared}
    assert decode(written).plan.root.expressions[3].arguments[0] == "YEAR"


def test_an_enum_alone_is_no_value() -> None:
    assert problem(plan(project(BELOW, {"enum": {"specified": "x"}}), [*"abcd"])).reason == "UNSUPPORTED_EXPRESSION"


def test_a_type_argument_is_refused() -> None:
    node = {"scalarFunction": {"functionReference": 4, "arguments": [{"type": I64}, {"value": number(1)}]}}
    assert faults(node) == ["UNSUPPORTED_ARGUMENT"]


@pytest.mark.parametrize("source", ["urn", "uri"])
def test_a_function_is_looked_up_where_its_plan_says(source: str) -> None:
    known = {
        "urn": {"extensionUrns": [{"extensionUrnAnchor": 5, "urn": "extension:io.substrait:functions_arithmetic"}]},
        "uri": {"extensionUris": [{"extensionUriAnchor": 5, "uri": "/functions_arithmetic.yaml"}]},
    }
    reference = {"urn": "extensionUrnReference", "uri": "extensionUriReference"}[source]
    declared = [{"extensionFunction": {"functionAnchor": 4, "name": "add:i64_i64", reference: 5}}]
    written = {**plan(project(BELOW, call("add", field(0), number(1))), [*"abcd"]), "extensions": declared}
    decoded_call = decode_binary({**written, **known[source]}).plan.root.expressions[3]
    assert decoded_call.function.urn == "extension:io.substrait:functions_arithmetic"


def test_the_result_types_that_duckdb_declares_are_not_believed() -> None:
    wrong = call("equal", field(0), number(1), outputType=I64)
    written = plan(project(BELOW, wrong), ["x"], version={"producer": "DuckDB", "minorNumber": 53})
    assert decode(written).plan.root.schema == (t.Boolean(nullable=False),)


def test_an_aggregate_is_no_scalar_function() -> None:
    assert faults(call("count")) == ["UNKNOWN_FUNCTION"]


# -------------------------------------------------------------------------------------------------------- casts


@pytest.mark.parametrize(("behaviour", "failure"), [(0, "ERROR"), (1, "NULL"), (2, "ERROR")])
def test_a_cast_fails_as_the_plan_says(behaviour: int, failure: str) -> None:
    decoded_cast = only(expression({"cast": {"type": I32, "input": field(1), "failureBehavior": behaviour}}), ir.Cast)
    assert decoded_cast.on_failure is ir.CastFailure[failure]
    assert decoded_cast.type.nullable is (failure == "NULL")


def test_a_cast_of_a_nullable_value_is_nullable() -> None:
    assert expression({"cast": {"type": I32, "input": field(2)}}).type == t.Integer(bits=32)


@pytest.mark.parametrize("type_", [{"date": {}}, {"list": {"type": I64}}, {"binary": {}}, {"uuid": {}}])
def test_a_cast_that_means_nothing_is_a_problem(type_: Node) -> None:
    assert faults({"cast": {"type": type_, "input": field(0)}}) == ["BAD_CAST"]


# ----------------------------------------------------------------------------------------- if, switch, or-lists


def test_if_then_is_nullable_where_a_branch_is_or_where_there_is_no_else() -> None:
    clause = {"if": TRUE, "then": field(0)}
    assert expression({"ifThen": {"ifs": [clause], "else": field(0)}}).type.nullable is False
    assert expression({"ifThen": {"ifs": [clause], "else": field(2)}}).type.nullable is True
    assert expression({"ifThen": {"ifs": [clause]}}).type.nullable is True


@pytest.mark.parametrize("kind", [("i8", "i64", "i32"), ("fp32", "fp64", "fp32")])
def test_branches_of_several_widths_have_the_widest(kind: tuple[str, ...]) -> None:
    first, widest, last = ({"literal": {type_: 1}} for type_ in kind)
    branches = {"ifs": [{"if": TRUE, "then": first}, {"if": TRUE, "then": widest}], "else": last}
    assert str(expression({"ifThen": branches}).type) == kind[1]


def test_a_null_without_a_type_has_that_of_its_cast() -> None:
    null = expression({"cast": {"type": I32, "input": {"literal": {"null": {}}}}})
    assert isinstance(null, ir.Literal)
    assert (null.value, str(null.type)) == (None, "i32?")


def test_a_null_without_a_type_or_a_cast_is_a_problem() -> None:
    assert faults({"literal": {"null": {}}}) == ["MISSING"]
    assert faults({"cast": {"type": {}, "input": {"literal": {"null": {}}}}}) == ["MISSING"]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"ifThen": {"ifs": [{"if": number(1), "then": number(1)}]}}, "NOT_BOOLEAN"),
        ({"ifThen": {"ifs": [{"if": TRUE, "then": number(1)}], "else": text("x")}}, "MIXED_TYPES"),
        ({"ifThen": {"ifs": []}}, "MISSING"),
        ({"switchExpression": {"match": field(0), "ifs": []}}, "MISSING"),
        ({"switchExpression": {"match": field(0), "ifs": [{"if": {"date": 1}, "then": TRUE}]}}, "MIXED_TYPES"),
        ({"singularOrList": {"value": field(0), "options": []}}, "MISSING"),
        ({"singularOrList": {"value": field(0), "options": [text("x")]}}, "MIXED_TYPES"),
        ({"multiOrList": {"value": [field(0)], "options": [{"fields": [number(1), number(2)]}]}}, "WRONG_WIDTH"),
        ({"nested": {"list": {"values": [number(1), text("x")]}}}, "MIXED_TYPES"),
        ({"nested": {"list": {}}}, "MISSING"),
        ({"nested": {"map": {}}}, "MISSING"),
        ({"nested": {}}, "MISSING"),
        ({"subquery": {}}, "MISSING"),
        ({"executionContextVariable": {}}, "MISSING"),
        ({"lambdaInvocation": {}}, "MISSING"),
        ({"detachedExpressionOrdinal": 3}, "OUT_OF_RANGE"),
        ({}, "MISSING"),
    ],
)
def test_faults_of_expressions(node: Node, reason: str) -> None:
    assert faults(node) == [reason]


def test_a_switch_compares_with_literals() -> None:
    clauses = [{"if": {"i64": "1"}, "then": text("one")}, {"if": {"i64": "2"}, "then": text("two")}]
    decoded_switch = only(
        expression({"switchExpression": {"match": field(0), "ifs": clauses, "else": text("x")}}), ir.Switch
    )
    assert [case.value for case, _ in decoded_switch.clauses] == [1, 2]
    assert decoded_switch.otherwise.value == "x"


def test_or_lists_are_one_expression() -> None:
    one = only(expression({"singularOrList": {"value": field(0), "options": [number(1), number(2)]}}), ir.OneOf)
    records = [{"fields": [number(1), text("x")]}]
    several = only(expression({"multiOrList": {"value": [field(2), field(1)], "options": records}}), ir.OneOf)
    assert [len(option) for option in one.options] == [1, 1]
    assert (len(several.value), several.type.nullable, one.type.nullable) == (2, True, False)


# ------------------------------------------------------------------------------------------- nulls without a type

NULL: Node = {"literal": {"null": {}}}


@pytest.mark.parametrize(
    ("node", "typed"),
    [
        (call("coalesce", NULL, field(1)), t.String()),
        (call("add", field(0), NULL), t.Integer(bits=64)),
        (call("and", NULL, TRUE), t.Boolean()),
        ({"ifThen": {"ifs": [{"if": TRUE, "then": NULL}], "else": field(1)}}, t.String()),
        ({"ifThen": {"ifs": [{"if": TRUE, "then": field(0)}], "else": NULL}}, t.Integer(bits=64)),
        ({"ifThen": {"ifs": [{"if": NULL, "then": TRUE}], "else": TRUE}}, t.Boolean()),
        (
            {"switchExpression": {"match": field(0), "ifs": [{"if": {"i64": 1}, "then": NULL}], "else": field(1)}},
            t.String(),
        ),
        ({"singularOrList": {"value": field(1), "options": [text("x"), NULL]}}, t.String()),
        ({"singularOrList": {"value": NULL, "options": [number(1)]}}, t.Integer(bits=64)),
        ({"cast": {"type": {"date": {}}, "input": NULL}}, t.Date()),
    ],
)
@pytest.mark.parametrize("read", [decode, decode_binary])
def test_a_null_without_a_type_has_the_type_that_its_place_tells(node: Node, typed: t.Type, read: object) -> None:
    root = expression(node, read)
    inside = (root, *operands(root))
    assert [part.type for part in inside if isinstance(part, ir.Literal) and part.value is None] == [typed]


@pytest.mark.parametrize(
    "node",
    [
        NULL,
        call("add", NULL, NULL),
        call("like", NULL),
        call("add", {"literal": {"date": 1}}, NULL),  # a date and an interval are added, of months or of days
        {"ifThen": {"ifs": [{"if": TRUE, "then": NULL}], "else": NULL}},
        {"singularOrList": {"value": NULL, "options": [NULL]}},
        {"nested": {"list": {"values": [number(1), NULL]}}},
    ],
)
def test_a_null_without_a_type_is_refused_where_its_place_tells_none(node: Node) -> None:
    assert faults(node) == ["MISSING"]


# ----------------------------------------------------------------------------------------- nested and the clock


def test_structs_lists_and_maps_are_made_of_expressions() -> None:
    struct = expression({"nested": {"struct": {"fields": [field(0), field(1)]}}}, names="sxy")
    list_ = expression({"nested": {"list": {"values": [field(0), field(2)]}}})
    pairs = [{"key": field(1), "value": field(0)}]
    map_ = expression({"nested": {"map": {"keyValues": pairs}, "nullable": True}})
    assert struct.type == t.Struct(
        fields=(t.Integer(bits=64, nullable=False), t.String(nullable=False)), nullable=False
    )
    assert list_.type == t.List(element=t.Integer(bits=64), nullable=False)
    assert map_.type == t.Map(key=t.String(nullable=False), value=t.Integer(bits=64, nullable=False))
    assert len(map_.items) == 2


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ({"currentTimestamp": {"precision": 6}}, t.TimestampTz(precision=6, nullable=False)),
        ({"currentDate": {}}, t.Date(nullable=False)),
        ({"currentTimezone": {}}, t.String(nullable=False)),
    ],
)
def test_the_clock_is_a_variable(kind: Node, type_: t.Type) -> None:
    assert only(expression({"executionContextVariable": kind}), ir.ContextVariable).type == type_


def test_a_clock_for_every_record_is_refused() -> None:
    behaviour = {"variableEvalMode": "VARIABLE_EVALUATION_MODE_PER_RECORD"}
    reported = problem(plan(table(I64), ["a"], executionBehavior=behaviour))
    assert reported.reason == "UNSUPPORTED_EVALUATION"


# --------------------------------------------------------------------------------------------------- subqueries

SUB = table(I64, name="u")


def test_a_scalar_subquery_may_be_empty_so_it_is_nullable() -> None:
    decoded_subquery = only(expression({"subquery": {"scalar": {"input": SUB}}}), ir.Subquery)
    assert (decoded_subquery.kind, decoded_subquery.type) == (ir.SubqueryKind.SCALAR, t.Integer(bits=64))


def test_in_compares_needles_with_columns() -> None:
    wide = table(I64, TEXT, name="u")
    decoded_expression = expression({"subquery": {"inPredicate": {"needles": [field(2), field(1)], "haystack": wide}}})
    assert (decoded_expression.kind, len(decoded_expression.needles), decoded_expression.type.nullable) == (
        ir.SubqueryKind.IN,
        2,
        True,
    )


@pytest.mark.parametrize(("operation", "kind"), [(1, ir.SubqueryKind.EXISTS), (2, ir.SubqueryKind.UNIQUE)])
def test_predicates_on_sets_are_never_null(operation: int, kind: ir.SubqueryKind) -> None:
    decoded_expression = expression({"subquery": {"setPredicate": {"predicateOp": operation, "tuples": SUB}}})
    assert (decoded_expression.kind, decoded_expression.type) == (kind, t.Boolean(nullable=False))


@pytest.mark.parametrize(("number_", "comparison"), [*enumerate(["EQ", "NE", "LT", "GT", "LE", "GE"], start=1)])
def test_comparisons_with_any_and_all(number_: int, comparison: str) -> None:
    body = {"reductionOp": "REDUCTION_OP_ALL", "comparisonOp": number_, "left": field(0), "right": SUB}
    decoded_expression = expression({"subquery": {"setComparison": body}})
    assert (decoded_expression.kind, decoded_expression.comparison) == (ir.SubqueryKind.ALL, ir.Comparison[comparison])


@pytest.mark.parametrize(
    ("subquery", "reason"),
    [
        ({"scalar": {"input": table(I64, I64)}}, "WRONG_WIDTH"),
        ({"inPredicate": {"needles": [field(0), field(0)], "haystack": SUB}}, "WRONG_WIDTH"),
        ({"inPredicate": {"needles": [field(1)], "haystack": SUB}}, "MIXED_TYPES"),
        ({"inPredicate": {"haystack": SUB}}, "MISSING"),
        ({"setPredicate": {"tuples": SUB}}, "MISSING"),
        ({"setComparison": {"left": field(0), "right": SUB}}, "MISSING"),
        ({"scalar": {"input": {"ddl": {}}}}, "UNSUPPORTED_RELATION"),
    ],
)
def test_faults_of_subqueries(subquery: Node, reason: str) -> None:
    assert faults({"subquery": subquery}) == [reason]


# ---------------------------------------------------------------------------------------- detached expressions


def detached(*expressions: Node) -> Node:
    written = plan(project(BELOW, {"detachedExpressionOrdinal": 0}), [*"abcd"])
    written["relations"][0]["detachedExpressions"] = [*expressions]
    return written


def test_a_detached_expression_stands_where_it_is_used() -> None:
    root = decode(detached(call("add", {"detachedExpressionOrdinal": 1}, number(1)), field(2))).plan.root
    assert root.expressions[3].arguments[0].index == 2


def test_a_detached_expression_cannot_contain_itself() -> None:
    assert problem(detached(call("add", {"detachedExpressionOrdinal": 0}, number(1)))).reason == "CIRCULAR_REFERENCE"


@pytest.mark.parametrize("name", ["first_value", "last_value"])
@pytest.mark.parametrize(
    ("column", "bounds", "nullable"),
    [
        (0, {}, False),
        (2, {}, True),
        (0, {"lowerBound": {"preceding": {"offset": "1"}}, "upperBound": {"currentRow": {}}}, False),
        (0, {"lowerBound": {"following": {"offset": "1"}}}, True),
        (0, {"upperBound": {"preceding": {"offset": "1"}}}, True),
    ],
)
def test_a_value_of_a_frame_is_null_where_it_or_the_frame_may_be(
    name: str, column: int, bounds: Node, nullable: bool
) -> None:
    frame = {"boundsType": "BOUNDS_TYPE_ROWS", **bounds}
    assert expression({"windowFunction": function(name, field(column), **frame)}).type.nullable is nullable


def test_window_functions_and_aggregates_do_not_mix_with_scalars() -> None:
    node = {"windowFunction": function("sum", field(0), phase=1)}
    assert faults(node) == ["UNSUPPORTED_PHASE"]
