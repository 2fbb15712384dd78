"""Class of bug: a window function that loses its DISTINCT, or keeps one that it does not have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from substrait.algebra_pb2 import AggregateFunction
from substrait.plan_pb2 import Plan

import tidegate

from ..duckdb_oracle import oracle

ROWS: Final = pa.table({"g": ["a", "a", "a", "b", "b", None], "v": pa.array([3, 3, None, 5, 5, 7], pa.int64())})


def over(invocation: AggregateFunction.AggregationInvocation.ValueType) -> Plan:
    """The plan of `sum(v) OVER (PARTITION BY g)`. substrait-python writes no aggregates as window functions."""
    frame = sub.read_named_table("t", {"g": sub.string, "v": sub.i64})
    plan = frame.select("g", "v", sub.f.last_value(sub.col("v")).over("g", rows=(None, None)).alias("w")).to_plan()
    plan.extensions[0].extension_function.name = "sum:i64"
    [call] = [
        one.window_function
        for one in plan.relations[0].root.input.project.expressions
        if one.HasField("window_function")
    ]
    call.invocation = invocation
    call.output_type.i64.nullability = 1
    return plan


@pytest.mark.parametrize("invocation", ["DISTINCT", "ALL", "UNSPECIFIED"])
def test_a_window_function_sees_each_value_as_often_as_its_plan_says(invocation: str) -> None:
    plan = over(AggregateFunction.AggregationInvocation.Value(f"AGGREGATION_INVOCATION_{invocation}"))
    distinct = "DISTINCT" if invocation == "DISTINCT" else ""
    with oracle({"t": ROWS}) as connection:
        expected = connection.sql(f"SELECT g, v, CAST(sum({distinct} v) OVER (PARTITION BY g) AS BIGINT) FROM t")
        wanted = sorted(map(repr, expected.fetchall()))
    with tidegate.local(roots=()) as client:
        got = client.query(plan, {"t": ROWS})
    assert sorted(map(repr, zip(*(column.to_pylist() for column in got.columns), strict=True))) == wanted
