"""Joins of what is fed with large static tables: looked up in a kept index, with the rows that the join has."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from substrait import algebra_pb2 as algebra

import tidegate

from ..on_channels import on_channels
from .operated_plans import I64, TEXT, column, conjunction, joined, plan, read

TABLE = pa.table({"id": [at % 90_000 for at in range(100_000)], "name": [f"n{at}" for at in range(100_000)]})
EVENTS = pa.table({"k": [5, 95_000, None, 89_999, 5], "v": [1, 2, 3, 4, 5]})
FED = read("events", {"k": I64, "v": I64})
STATIC = read("names", {"id": I64, "name": TEXT})
NAMES = {"FED": ["k", "v", "id", "name"], "STATIC": ["id", "name", "k", "v"]}


def join(left: str, type_: str, static: algebra.Rel = STATIC) -> bytes:
    sides = (FED, static) if left == "FED" else (static, FED)
    return plan(joined(*sides, 2, type_), NAMES[left])


def present(relation: algebra.Rel) -> algebra.Rel:
    """A filter that keeps every row: something that is computed."""
    true = algebra.Expression(literal=algebra.Expression.Literal(boolean=True))
    return algebra.Rel(filter=algebra.FilterRel(input=relation, condition=true))


def answer(plan_: bytes, **options: object) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """The rows of an epoch, and how often each kind of operator has run after three."""
    with tidegate.local() as client, client.create_task(plan_, tables={"names": TABLE}, **options) as task:
        for _ in range(3):
            result = task.run_epoch({"events": EVENTS}).table()
        runs = {operator.operator: operator.runs for operator in task.statistics().operators}
    return list(zip(*(values.to_pylist() for values in result.columns), strict=True)), runs


def expected(left: str, type_: str) -> list[tuple[object, ...]]:
    events, names = EVENTS, TABLE  # noqa: F841 (DuckDB finds them by name)
    sides = "events {0} JOIN names" if left == "FED" else "names {0} JOIN events"
    columns = ", ".join(NAMES[left])
    return duckdb.sql(f"SELECT {columns} FROM {sides.format(type_)} ON k = id").fetchall()


@pytest.mark.parametrize(
    ("left", "type_"), [("FED", "INNER"), ("FED", "LEFT"), ("STATIC", "INNER"), ("STATIC", "RIGHT")]
)
@pytest.mark.parametrize("channels", [1, 2])
def test_a_small_epoch_is_looked_up_in_an_index_that_is_made_once(left: str, type_: str, channels: int) -> None:
    rows, runs = answer(join(left, type_), **on_channels(channels))
    assert sorted(rows, key=repr) == sorted(expected(left, type_), key=repr)
    assert (runs["Index"], runs["IndexLookupJoin"]) == (1, 3 * channels)


@pytest.mark.parametrize(("left", "type_"), [("FED", "RIGHT"), ("STATIC", "LEFT"), ("FED", "OUTER")])
def test_where_the_tables_unmatched_rows_are_wanted_it_is_joined(left: str, type_: str) -> None:
    rows, runs = answer(join(left, type_))
    assert len(rows) == len(expected(left, type_.replace("OUTER", "FULL")))
    assert "Index" not in runs


def test_the_rows_come_in_the_order_of_the_epoch() -> None:
    rows, _ = answer(join("FED", "LEFT"))
    assert [row[1] for row in rows] == [1, 1, 2, 3, 4, 5, 5]


def test_a_computed_static_side_is_indexed_too() -> None:
    rows, runs = answer(join("FED", "INNER", present(STATIC)))
    assert sorted(rows) == sorted(expected("FED", "INNER"))
    assert runs["Index"] == 1


def test_a_large_epoch_is_joined_by_the_same_task(tmp_path: Path) -> None:
    large = pa.table({"k": range(20_000), "v": range(20_000)})
    pq.write_table(large, tmp_path / "large.parquet")
    with tidegate.local() as client, client.create_task(join("FED", "INNER"), tables={"names": TABLE}) as task:
        assert task.run_epoch({"events": str(tmp_path / "large.parquet")}).table().num_rows == 30_000
        assert "Index" not in {operator.operator for operator in task.statistics().operators}
        assert task.run_epoch({"events": EVENTS}).table().num_rows == 5
        assert "Index" in {operator.operator for operator in task.statistics().operators}


def test_an_index_that_would_not_fit_is_done_without() -> None:
    wide = TABLE.set_column(1, "name", pa.array(["x" * 1_000] * TABLE.num_rows))
    with (
        tidegate.local() as client,
        client.create_task(join("FED", "INNER"), tables={"names": wide}, memory_limit=256 << 20) as task,
    ):
        assert task.run_epoch({"events": EVENTS}).table().num_rows == 5
        assert "IndexLookupJoin" not in {operator.operator for operator in task.statistics().operators}


def test_what_else_a_condition_asks_for_is_a_filter_above() -> None:
    both = joined(FED, STATIC, 2)
    equal = algebra.Expression.FromString(both.join.expression.SerializeToString())
    same = algebra.Expression.FromString(both.join.expression.SerializeToString())
    same.scalar_function.arguments[1].value.CopyFrom(column(1))  # k = v
    both.join.expression.CopyFrom(conjunction(equal, same))
    events = pa.table({"k": [5, 6, 7], "v": [5, 5, 7]})
    with tidegate.local() as client, client.create_task(plan(both, NAMES["FED"]), tables={"names": TABLE}) as task:
        result = task.run_epoch({"events": events}).table()
        assert result["id"].to_pylist() == [5, 5, 7, 7]
        assert "IndexLookupJoin" in {operator.operator for operator in task.statistics().operators}


def test_it_is_explained() -> None:
    with tidegate.local() as client:
        text = client.explain(join("FED", "INNER"), static_sources=["names"]).text
    assert "join, inner, or a look-up in kept index index0" in text
    assert "index0: look-ups of epochs that are small beside the index read it: made once per task" in text
