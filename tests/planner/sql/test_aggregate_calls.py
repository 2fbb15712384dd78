"""Aggregates over the rows that meet a condition: the same with and without DuckDB's FILTER."""

from __future__ import annotations

import duckdb
import pytest

from tidegate.planner.sql.aggregate_calls import aggregate_call

ROWS = "(VALUES (1, 3, true), (1, NULL, true), (1, 5, false), (2, 7, NULL), (2, NULL, false)) AS r(k, x, c)"
CALLS = [
    *((name, "x") for name in ("sum", "count", "avg", "min", "max", "any_value", "stddev_samp", "var_pop")),
    *((name, "x") for name in ("bit_and", "bit_or", "bit_xor", "median", "mode", "first", "list")),
    *((name, "x > 4") for name in ("bool_and", "bool_or")),
    ("count", "*"),
]


@pytest.mark.parametrize(("name", "argument"), CALLS)
@pytest.mark.parametrize("distinct", ["", "DISTINCT "])
@pytest.mark.parametrize("keys", ["k", "()"])
def test_a_condition_leaves_rows_out_as_a_filter_does(name: str, argument: str, distinct: str, keys: str) -> None:
    if distinct and argument == "*":
        pytest.skip("SQL has no such call")
    ours = aggregate_call(name, [argument], "c", distinct=distinct)
    filtered = f"{name}({distinct}{argument}) FILTER (WHERE c)"
    both = duckdb.execute(f"SELECT {ours}, {filtered} FROM {ROWS} GROUP BY {keys} ORDER BY min(k)").fetchall()
    assert both
    assert all(ours == filtered for ours, filtered in both)


@pytest.mark.parametrize(("name", "filters"), [("sum", 0), ("count", 0), ("list", 1), ("first", 1)])
def test_an_aggregate_that_leaves_nulls_out_needs_no_filter(name: str, filters: int) -> None:
    """DuckDB takes the second power of the number of filters: 900 of them took five seconds for a single row."""
    assert aggregate_call(name, ["x"], "c").count("FILTER") == filters
