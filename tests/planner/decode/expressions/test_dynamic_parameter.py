"""Class of bug: a parameter that is read as another value than the plan binds to it, or as none."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidegate

from ..plans import I64, I64_NULL, TEXT, Node, decode, encode, filter_, plan, problem, table


def parameter(reference: int, type_: Node = I64) -> Node:
    return {"dynamicParameter": {"parameterReference": reference, "type": type_}}


def call(name: int, *arguments: Node) -> Node:
    boolean = {"bool": {"nullability": "NULLABILITY_REQUIRED"}}
    values = [{"value": argument} for argument in arguments]
    return {"scalarFunction": {"functionReference": name, "outputType": boolean, "arguments": values}}


def above(parameter_: Node, *bindings: Node) -> Node:
    column = {"selection": {"directReference": {"structField": {}}, "rootReference": {}}}
    return plan(filter_(table(I64), call(5, column, parameter_)), ["a"], parameterBindings=[*bindings])


def binding(anchor: int, value: Node) -> Node:
    return {"parameterAnchor": anchor, "value": value}


TWO, THREE = binding(7, {"i64": "2"}), binding(8, {"i64": "3"})


@pytest.mark.parametrize(("reference", "rows"), [(7, [3, 4]), (8, [4])])
def test_a_parameter_has_the_value_of_its_binding(reference: int, rows: list[int]) -> None:
    with tidegate.local() as client, client.create_task(encode(above(parameter(reference), TWO, THREE))) as task:
        result = task.run_epoch({"t": pa.table({"a": [1, 2, 3, 4]})}).table()
    assert result.column("a").to_pylist() == rows


def test_a_null_is_a_value_of_a_parameter_that_may_be_null() -> None:
    decode(above(parameter(7, I64_NULL), binding(7, {"null": I64_NULL})))


def test_a_parameter_without_a_binding_is_refused() -> None:
    refusal = problem(above(parameter(9), TWO, THREE))
    assert refusal.reason == "MISSING_PARAMETER"
    assert refusal.place.endswith("dynamic_parameter.parameter_reference")
    assert "parameter 9 has no value" in refusal.message


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [(I64, {"i32": 2}, "i32"), (I64, {"null": I64_NULL}, "null"), (TEXT, {"i64": "2"}, "i64")],
)
def test_a_value_of_another_type_is_refused(type_: Node, value: Node, shown: str) -> None:
    refusal = problem(above(parameter(7, type_), binding(7, value)))
    assert (refusal.reason, f"its value is {shown}" in refusal.message) == ("BAD_PARAMETER", True)


def test_a_parameter_without_a_type_has_that_of_its_binding() -> None:
    untyped = {"dynamicParameter": {"parameterReference": 7}}
    with tidegate.local() as client:
        rows = client.query(encode(above(untyped, binding(7, {"i64": "3"}))), {"t": pa.table({"a": [1, 2, 3, 4]})})
    assert rows.column("a").to_pylist() == [4]


def test_two_values_for_one_parameter_are_refused() -> None:
    assert problem(above(parameter(7), TWO, TWO)).reason == "DUPLICATE_ANCHOR"
