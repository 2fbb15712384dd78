"""Class of bug: a plan that is accepted and cannot be run, or of whose problems only the first is named."""

from __future__ import annotations

import json

import pytest
import yaml

import tidegate
from tidegate.planner.prepare import prepare
from tidegate.proto.errors import PlanError, Problem
from tidegate.proto.values import TaskOptions

from .decode.plans import I64, TEXT, Node, decode, field, filter_, number, plan, problems, project, table

REQUIRED: Node = {"nullability": "NULLABILITY_REQUIRED"}
PICOSECONDS: Node = {"precisionTimestamp": {"precision": 12, **REQUIRED}}
NAMES = ("add", "regexp_replace", "string_agg", "equal")
ROOT = "relations[0].root.input"


def declared(root: Node, *names: str) -> Node:
    extensions = [{"extensionFunction": {"functionAnchor": n, "name": name}} for n, name in enumerate(NAMES)]
    return plan(root, names, extensions=extensions)


def use(name: str, *arguments: Node, **more: object) -> Node:
    return {
        "functionReference": NAMES.index(name),
        "arguments": [{"value": argument} for argument in arguments],
        **more,
    }


def cast(operand: Node, type_: Node) -> Node:
    return {"cast": {"input": operand, "type": type_, "failureBehavior": "FAILURE_BEHAVIOR_THROW_EXCEPTION"}}


def preparing(node: Node) -> list[Problem]:
    with pytest.raises(PlanError) as refused:
        prepare(decode(node), TaskOptions())
    return list(refused.value.problems)


BROKEN = project(
    filter_(table(I64, TEXT), number(1)),
    {"scalarFunction": use("regexp_replace", *[field(1)] * 3, number(1), number(2))},
    {"scalarFunction": use("add", field(0), field(0), options=[{"name": "overflow", "preference": ["NEVER"]}])},
    cast(field(1), PICOSECONDS),
    field(9),
)
FAULTS = [
    (f"{ROOT}.project.input.filter.condition", "NOT_BOOLEAN"),
    (f"{ROOT}.project.expressions[0].scalar_function", "UNSUPPORTED_FUNCTION"),
    (f"{ROOT}.project.expressions[1].scalar_function", "UNSUPPORTED_OPTION"),
    (f"{ROOT}.project.expressions[2].cast.type", "UNSUPPORTED_TYPE"),
    (f"{ROOT}.project.expressions[3].selection.direct_reference.struct_field.field", "OUT_OF_RANGE"),
]


def test_five_faults_of_mixed_kinds_are_found_at_five_places() -> None:
    assert [(problem.place, problem.reason) for problem in problems(declared(BROKEN, *"abcdef"))] == FAULTS


def test_validate_and_create_task_both_name_all_of_them() -> None:
    document = json.dumps(declared(BROKEN, *"abcdef"))
    with tidegate.local() as client:
        assert [(reported.place, reported.reason) for reported in client.validate(document)] == FAULTS
        with pytest.raises(PlanError) as refused:
            client.create_task(document)
    assert [(problem.place, problem.reason) for problem in refused.value.problems] == FAULTS


def test_an_aggregate_that_needs_a_constant_is_refused_where_it_is_used() -> None:
    measure = use("string_agg", field(0), field(1), phase="AGGREGATION_PHASE_INITIAL_TO_RESULT")
    (reported,) = problems(
        declared({"aggregate": {"input": table(TEXT, TEXT), "measures": [{"measure": measure}]}}, "a")
    )
    assert reported.place == f"{ROOT}.aggregate.measures[0].measure"
    assert "the separator must be a constant" in reported.message


def test_a_literal_of_a_type_that_cannot_be_carried_is_refused_where_it_is() -> None:
    literal = {"literal": {"precisionTimestamp": {"precision": 12, "value": "1"}}}
    (reported,) = problems(declared(project(table(I64), literal), "a", "b"))
    assert (reported.place, reported.reason) == (
        f"{ROOT}.project.expressions[0].literal",
        "UNSUPPORTED_TYPE",
    )


def test_columns_that_cannot_be_carried_are_named_beside_reads_that_disagree() -> None:
    left, right = table(I64, PICOSECONDS, PICOSECONDS), table(TEXT, name="t")
    reported = preparing(declared({"cross": {"left": left, "right": right}}, *"abcd"))
    assert sorted((problem.reason, problem.place.rpartition("cross.")[2]) for problem in reported) == [
        ("SCHEMA_CONFLICT", "right.read.named_table"),
        ("UNSUPPORTED_TYPE", "left.read.named_table"),
        ("UNSUPPORTED_TYPE", "left.read.named_table"),
    ]
    assert [problem.message.split(":")[0] for problem in reported[1:]] == [
        "column 'b' of source 't'",
        "column 'c' of source 't'",
    ]


def test_a_column_that_nothing_uses_may_be_of_any_type() -> None:
    used = project(table(I64, PICOSECONDS), field(0), common={"emit": {"outputMapping": [2]}})
    (source,) = prepare(decode(declared(used, "a")), TaskOptions()).sources
    assert [column.name for column in source.columns] == ["a"]


def test_the_service_describes_what_it_runs_as_a_dialect() -> None:
    with tidegate.local() as client:
        document = yaml.safe_load(client.capabilities().dialect)
    assert "add" in {function["name"] for function in document["supported_scalar_functions"]}
