"""Subqueries inside of lambdas: computed in front of them, or refused where they read a lambda's parameter."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import tidegate
from benchmarks.plan_growth import Node
from benchmarks.plan_parts import (
    Made,
    call,
    col,
    exists,
    filtered,
    first_of,
    function_of_one,
    in_subquery,
    listed,
    num,
    number_of,
    parameter,
    project,
    read,
    text,
)

ROWS = pa.table({"c0": [1, 2, 3]}, schema=pa.schema([pa.field("c0", pa.int64(), nullable=False)]))


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


def next_of(value: Node) -> Node:
    """A lambda's answer."""
    return first_of(call("transform", listed(value), function_of_one(call("add", parameter(), num(1)))))


def has(needle: Node) -> Node:
    subquery = in_subquery(read("m"))
    subquery["subquery"]["inPredicate"]["needles"] = [needle]
    return number_of(subquery)


def less(left: Node) -> Node:
    operations = {"reductionOp": "REDUCTION_OP_ALL", "comparisonOp": "COMPARISON_OP_LT"}
    return number_of({"subquery": {"setComparison": {**operations, "left": left, "right": read("m")}}})


def inside(body: Node) -> str:
    """The plan of a projection whose lambda adds its parameter to `body`."""
    function = function_of_one(call("add", parameter(), body))
    return json.dumps(Made(project(read(), first_of(call("transform", listed(col()), function)))).plan())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (number_of(exists(filtered(read("m"), call("equal", text("p0_0"), text("p0_0"))))), [2, 3, 4]),
        (has(next_of(col())), [2, 3, 3]),
        (number_of(exists(filtered(read("m"), call("equal", next_of(col()), num(4))))), [2, 3, 4]),
        (next_of(has(next_of(col()))), [3, 4, 4]),
    ],
    ids=["text", "operand with a lambda", "relation with a lambda", "two lambdas around"],
)
def test_what_looks_like_a_parameter_of_the_lambda_is_none(
    body: Node, expected: list[int], client: tidegate.Client
) -> None:
    """Class of bug: a subquery whose SQL had such a name in it stayed in the lambda, where DuckDB has none."""
    assert client.query(inside(body), {"t": ROWS, "m": ROWS.slice(1)})["c0"].to_pylist() == expected


@pytest.mark.parametrize(
    ("body", "plan_path"),
    [
        (has(parameter()), "needles[0]"),
        (has(next_of(parameter())), "needles[0].selection.expression"),
        (less(parameter()), "left"),
        (number_of(exists(filtered(read("m"), call("equal", col(), parameter())))), "tuples"),
    ],
)
def test_a_subquery_that_reads_the_parameter_is_refused(body: Node, plan_path: str, client: tidegate.Client) -> None:
    (problem,) = client.validate(inside(body))
    assert (problem.reason, f".{plan_path}" in problem.place) == ("UNSUPPORTED_REFERENCE", True)
    assert "cannot read the lambda's parameters" in problem.message
