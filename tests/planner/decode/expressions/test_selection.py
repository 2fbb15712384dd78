"""`Expression.selection`."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from ..plans import (
    BOOL,
    I64,
    I64_NULL,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    field,
    filter_,
    only,
    outer,
    plan,
    problem,
    project,
    table,
)

STRUCT = {"struct": {"types": [I64, {"list": {"type": I64, "nullability": 2}}], "nullability": 2}}
MAP = {"map": {"key": TEXT, "value": I64, "nullability": 2}}


def reference(segment: Node, root: Node | None = None) -> Node:
    return {"selection": {"directReference": segment, **(root or {"rootReference": {}})}}


def column(index: int, child: Node) -> Node:
    return {"structField": {"field": index, "child": child}}


def nested_table(*types: Node, names: list[str]) -> Node:
    base = {"names": names, "struct": {"types": [*types]}}
    return {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}


def chosen(expression: Node, below: Node, width: int) -> ir.Expression:
    """The expression, as the last column of a projection of `below`."""
    names = ["n"] * (width + 1)
    root = decode(plan(project(below, expression, common={"emit": {"outputMapping": [width]}}), names[:1])).plan.root
    return only(root, ir.Project).expressions[0]


STRUCTS = nested_table(STRUCT, MAP, names=["s", "x", "y", "m"])


def test_a_reference_may_leave_its_root_out() -> None:
    bare = {"selection": {"directReference": {"structField": {"field": 1}}}}
    assert chosen(bare, table(I64, TEXT), 2).index == 1


def test_steps_go_on_into_structs_and_lists() -> None:
    path = column(0, column(1, {"listElement": {"offset": 3}}))
    selection = chosen(reference(path), STRUCTS, 2)
    assert selection.index == 0
    assert selection.steps[0] == 1
    assert selection.steps[1].offset == 3
    assert selection.type == t.Integer(bits=64)


def test_a_field_of_a_required_struct_is_as_nullable_as_it_is() -> None:
    assert chosen(reference(column(0, {"structField": {"field": 0}})), STRUCTS, 2).type.nullable is False


def test_a_key_of_a_map_may_be_absent() -> None:
    selection = chosen(reference(column(1, {"mapKey": {"mapKey": {"string": "k"}}})), STRUCTS, 2)
    assert selection.steps[0].key.value == "k"
    assert selection.type == t.Integer(bits=64)


def test_steps_into_an_expression() -> None:
    struct_of_fields = {"nested": {"struct": {"fields": [field(0), TRUE]}}}
    selection = chosen(reference({"structField": {"field": 1}}, {"expression": struct_of_fields}), table(I64), 1)
    assert isinstance(selection, ir.NestedField)
    assert (selection.steps, selection.type) == ((1,), t.Boolean(nullable=False))


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        ({"structField": {"field": 9}}, "OUT_OF_RANGE"),
        ({"structField": {"field": -1}}, "OUT_OF_RANGE"),
        (column(0, {"structField": {"field": 9}}), "BAD_REFERENCE"),
        (column(0, {"listElement": {"offset": 0}}), "BAD_REFERENCE"),
        (column(1, {"mapKey": {"mapKey": {"i64": 1}}}), "BAD_REFERENCE"),
        ({"listElement": {"offset": 0}}, "BAD_REFERENCE"),
        ({}, "MISSING"),
    ],
)
def test_references_to_nothing(segment: Node, reason: str) -> None:
    reported = problem(plan(project(STRUCTS, reference(segment)), [*"abcdefgh"][:5]))
    assert reported.reason == reason
    assert reported.place.startswith("relations[0].root.input.project.expressions[0].selection.direct_reference")


def test_masks_are_refused_outside_reads() -> None:
    mask = {"selection": {"maskedReference": {"select": {"structItems": [{"field": 0}]}}, "rootReference": {}}}
    assert problem(plan(project(table(I64), mask), ["a", "b"])).reason == "UNSUPPORTED_REFERENCE"


# -------------------------------------------------------------------------------------------- outer references


def exists(below: Node) -> Node:
    return {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": below}}}


def inner_condition(relation: ir.Relation) -> ir.Expression:
    return only(only(relation, ir.Filter).condition.relation, ir.Filter).condition


def correlated(reference_: Node, *, filter_anchor: int = 0, read_anchor: int = 0) -> Node:
    inner = filter_(table(I64, name="u"), call("equal", field(0), reference_))
    read = table(TEXT, I64, common={"relAnchor": read_anchor} if read_anchor else {})
    return filter_(read, exists(inner), common={"relAnchor": filter_anchor} if filter_anchor else {})


@pytest.mark.parametrize(
    "relation",
    [
        correlated(outer(1, steps_out=1)),
        correlated(outer(1, rel_reference=7), filter_anchor=7),
        correlated(outer(1, rel_reference=8), read_anchor=8),
    ],
    ids=["by steps", "by the operator's anchor", "by its input's anchor"],
)
def test_a_subquery_reads_the_row_around_it(relation: Node) -> None:
    condition = inner_condition(decode(plan(relation, ["a", "b"])).plan.root)
    assert (condition.arguments[1].index, condition.arguments[1].outer) == (1, 1)


def test_the_anchor_of_a_right_input_counts_from_its_first_column() -> None:
    inner = filter_(table(I64, name="u"), call("equal", field(0), outer(0, rel_reference=3)))
    right = table(I64, name="r", common={"relAnchor": 3})
    join = {"join": {"left": table(TEXT, TEXT), "right": right, "type": "JOIN_TYPE_INNER", "expression": exists(inner)}}
    condition = only(decode(plan(join, ["a", "b", "c"])).plan.root, ir.Join).condition
    assert condition.relation.condition.arguments[1].index == 2


def test_steps_go_out_of_several_subqueries() -> None:
    innermost = filter_(table(I64, name="v"), call("equal", field(0), outer(1, steps_out=2)))
    middle = filter_(table(I64, name="u"), exists(innermost))
    root = only(decode(plan(filter_(table(TEXT, I64), exists(middle)), ["a", "b"])).plan.root, ir.Filter)
    condition = root.condition.relation.condition.relation.condition
    assert (condition.arguments[1].index, condition.arguments[1].outer) == (1, 2)


@pytest.mark.parametrize(
    ("reference_", "reason"),
    [
        (outer(1, steps_out=2), "OUT_OF_RANGE"),
        (outer(1, steps_out=0), "OUT_OF_RANGE"),
        (outer(1, rel_reference=5), "UNKNOWN_ANCHOR"),
        (outer(9, steps_out=1), "OUT_OF_RANGE"),
    ],
)
def test_outer_references_to_nothing(reference_: Node, reason: str) -> None:
    assert problem(plan(correlated(reference_), ["a", "b"])).reason == reason


def test_a_reference_that_ibis_lost_is_found_in_the_row_around() -> None:
    version = {"producer": "ibis-substrait", "minorNumber": 56}
    decoded = decode(plan(correlated(field(1)), ["a", "b"], version=version))
    assert inner_condition(decoded.plan.root).arguments[1].outer == 1
    assert len(decoded.warnings) == 1


def test_from_other_producers_such_a_reference_is_a_problem() -> None:
    assert problem(plan(correlated(field(1)), ["a", "b"])).reason == "OUT_OF_RANGE"


# ----------------------------------------------------------------------------------------------------- lambdas


def lambda_(body: Node, *parameters: Node) -> Node:
    return {"lambda": {"parameters": {"types": [*parameters], "nullability": 2}, "body": body}}


def parameter(index: int, steps: int = 0) -> Node:
    return reference({"structField": {"field": index}}, {"lambdaParameterReference": {"stepsOut": steps}})


LISTS = nested_table({"list": {"type": I64_NULL, "nullability": 2}}, BOOL, names=["l", "b"])


def test_a_lambda_reads_its_parameters_and_the_row() -> None:
    body = call("add", parameter(0), {"literal": {"i64": 1}})
    decoded_call = chosen(call("transform", field(0), lambda_(body, I64_NULL)), LISTS, 2)
    assert isinstance(decoded_call, ir.Call)
    function = only(decoded_call.arguments[1], ir.Lambda)
    assert only(function.body.arguments[0], ir.Parameter).index == 0


@pytest.mark.parametrize("body", [parameter(3), parameter(0, steps=1)])
def test_parameters_that_no_lambda_has(body: Node) -> None:
    relation = project(LISTS, call("transform", field(0), lambda_(body, I64_NULL)))
    assert problem(plan(relation, ["a", "b", "c"])).reason == "OUT_OF_RANGE"


def test_a_lambda_is_an_argument_and_nothing_else() -> None:
    assert problem(plan(project(LISTS, lambda_(parameter(0), I64)), ["a", "b", "c"])).reason == "MISPLACED_LAMBDA"
