"""Direct calls of lambdas, as whole plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.values import PlanBytes

Node = dict[str, Any]

I64: Node = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
TEXT: Node = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
ROWS = pa.table({"x": [3, None, -5], "y": [10, 20, 30]})


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


def column(index: int) -> Node:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def parameter(index: int, steps: int = 0) -> Node:
    reference = {"stepsOut": steps}
    return {"selection": {"directReference": {"structField": {"field": index}}, "lambdaParameterReference": reference}}


def plus(left: Node, right: Node) -> Node:
    arguments = [{"value": left}, {"value": right}]
    return {"scalarFunction": {"functionReference": 1, "arguments": arguments, "outputType": I64}}


def called(body: Node, *arguments: Node, types: list[Node] | None = None) -> Node:
    parameters = {"types": [I64] * len(arguments) if types is None else types, "nullability": "NULLABILITY_REQUIRED"}
    function = {"parameters": parameters, "body": body}
    return {"lambdaInvocation": {"lambda": function, "arguments": {"fields": [*arguments]}}}


def plan(expression: Node) -> PlanBytes:
    base = {"names": ["x", "y"], "struct": {"types": [I64, I64], "nullability": "NULLABILITY_REQUIRED"}}
    project = {
        "common": {"emit": {"outputMapping": [2]}},
        "input": {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}},
        "expressions": [expression],
    }
    document = {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_arithmetic"}],
        "extensions": [{"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": 1, "name": "add:i64_i64"}}],
        "relations": [{"root": {"names": ["z"], "input": {"project": project}}}],
    }
    return PlanBytes(json=json.dumps(document))


def answer(client: tidegate.Client, expression: Node) -> list[object]:
    with client.create_task(plan(expression)) as task:
        values: list[object] = task.run_epoch({"t": ROWS}).table()["z"].to_pylist()
        return values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (called(plus(parameter(0), parameter(1)), column(0), column(1)), [13, None, 25]),
        (called(plus(parameter(0), column(1)), column(0)), [13, None, 25]),
        (called(parameter(1), column(0), column(1)), [10, 20, 30]),
        (called({"literal": {"i64": 7}}, column(0)), [7, 7, 7]),
        (called(called(plus(parameter(0), parameter(1, 1)), column(1)), column(1), column(0)), [13, None, 25]),
        (called(called(plus(parameter(0), parameter(0)), parameter(0)), column(0)), [6, None, -10]),
    ],
)
def test_a_call_is_the_body_with_the_arguments_in_place(
    expression: Node, expected: list[object], client: tidegate.Client
) -> None:
    assert answer(client, expression) == expected


def test_an_argument_is_computed_once_however_often_the_body_reads_it(client: tidegate.Client) -> None:
    """Put in place, the argument would stand in the statement a million times."""
    expression = column(0)
    for _ in range(20):
        expression = called(plus(parameter(0), parameter(0)), expression)
    assert answer(client, expression) == [3 << 20, None, -5 << 20]


def test_calls_in_the_bodies_of_one_another_have_a_limit(client: tidegate.Client) -> None:
    """Class of bug: DuckDB takes twice the time and memory to plan a body with each lambda around it."""

    def nested(levels: int) -> Node:
        body = parameter(0)
        for _ in range(levels):
            body = called(plus(parameter(0), body), column(0))
        return body

    assert answer(client, nested(5)) == [18, None, -30]
    (problem,) = client.validate(plan(nested(6)))
    assert problem.reason == "PLAN_TOO_LARGE"
    assert "more than 5 lambdas in the bodies of one another" in problem.message


@pytest.mark.parametrize(
    ("expression", "reason", "path"),
    [
        (called(parameter(0), column(0), types=[I64, I64]), "WRONG_TYPE", "arguments"),
        (called(parameter(0), column(0), types=[TEXT]), "WRONG_TYPE", "arguments"),
        (called(parameter(1), column(0)), "OUT_OF_RANGE", "lambda.body"),
        ({"lambdaInvocation": {"arguments": {"fields": []}}}, "MISSING", "lambda"),
    ],
)
def test_a_false_call_is_a_problem(expression: Node, reason: str, path: str, client: tidegate.Client) -> None:
    (problem,) = client.validate(plan(expression))
    assert problem.reason == reason
    assert problem.place.startswith(f"relations[0].root.input.project.expressions[0].lambda_invocation.{path}")
