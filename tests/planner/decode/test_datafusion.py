"""Plans of DataFusion that say something else than their queries mean."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import datafusion
import pyarrow as pa
import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.ir.tree import inputs
from tidegate.proto.values import PlanBytes

from ...continuous.histories import multiset, planned, rows_of
from ...duckdb_oracle import oracle

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROWS: Final = {
    "l": pa.table({"k": [1, 1, 1, 2, 2, None, 3], "v": [1, 1, 1, 2, 2, None, 5]}, SCHEMA),
    "r": pa.table({"k": [1, 1, 2, 2, None, 4], "v": [1, 1, 2, 3, None, 5]}, SCHEMA),
}
OR_NOT_EXISTS: Final = "SELECT k FROM l WHERE v > 1 OR NOT EXISTS (SELECT 1 FROM r WHERE r.v = l.v)"
OR_NOT_IN: Final = "SELECT k FROM l WHERE k = 3 OR k NOT IN (SELECT k FROM r WHERE r.v > l.v)"
OR_NOT_EXISTS_MORE: Final = "SELECT k FROM l WHERE k = 3 OR NOT EXISTS (SELECT 1 FROM r WHERE r.v > l.v)"
NOT_IN: Final = "SELECT k FROM l WHERE v NOT IN (SELECT v FROM r)"
NOT_EXISTS: Final = "SELECT k FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.v = l.v)"


def plan_of(sql: str) -> bytes:
    return planned(sql, dict.fromkeys(ROWS, SCHEMA))


def joins(sql: str) -> set[ir.JoinType]:
    def joins_below(relation: ir.Relation) -> set[ir.JoinType]:
        mine = {relation.type} if isinstance(relation, ir.Join) else set()
        return mine.union(*(joins_below(child) for child in inputs(relation)))

    return joins_below(decode_plan(PlanBytes(binary=plan_of(sql))).plan.root)


def answers(sql: str) -> dict[str, Counter[Any]]:
    session = datafusion.SessionContext()
    with tidegate.local() as client, oracle(ROWS) as connection:
        for name, rows in ROWS.items():
            session.register_record_batches(name, [rows.to_batches()])
        return {
            "tidegate": multiset(rows_of(client.query(plan_of(sql), ROWS))),
            "datafusion": multiset(rows_of(session.sql(sql).to_arrow_table())),
            "duckdb": multiset(connection.sql(sql).fetchall()),
        }


@pytest.mark.parametrize(("word", "type_"), [("INTERSECT", "LEFT_SEMI"), ("EXCEPT", "LEFT_ANTI")])
def test_set_operations_that_count_copies_are_joins_that_do_not(word: str, type_: str) -> None:
    sql = f"SELECT k, v FROM l {word} ALL SELECT k, v FROM r"
    assert joins(sql) == {ir.JoinType[type_]}
    by_engine = answers(sql)
    assert by_engine["tidegate"] == by_engine["datafusion"] != by_engine["duckdb"]


def test_not_exists_beside_or_is_the_mark_of_in_and_said_to_be() -> None:
    assert joins(OR_NOT_EXISTS) == {ir.JoinType.LEFT_MARK}
    (warning,) = decode_plan(PlanBytes(binary=plan_of(OR_NOT_EXISTS))).warnings
    assert "NOT EXISTS misses rows whose columns in the condition are null" in warning
    by_engine = answers(OR_NOT_EXISTS)
    assert by_engine["duckdb"] - by_engine["tidegate"] == Counter({(None,): 1})


@pytest.mark.parametrize("sql", [OR_NOT_IN, OR_NOT_EXISTS_MORE])
def test_a_null_in_the_conditions_of_a_subquery_beside_or_drops_the_inner_row(sql: str) -> None:
    assert joins(sql) == {ir.JoinType.LEFT_MARK}
    by_engine = answers(sql)
    assert by_engine["tidegate"] == by_engine["duckdb"]


def test_not_in_is_the_anti_join_of_not_exists_and_said_to_be() -> None:
    assert joins(NOT_IN) == joins(NOT_EXISTS) == {ir.JoinType.LEFT_ANTI}
    (warning,) = decode_plan(PlanBytes(binary=plan_of(NOT_IN))).warnings
    assert "DataFusion writes NOT IN as the anti join of NOT EXISTS" in warning
    by_engine = answers(NOT_IN)
    assert by_engine["datafusion"] == by_engine["duckdb"] != by_engine["tidegate"]


def test_not_exists_by_itself_is_what_it_means() -> None:
    by_engine = answers(NOT_EXISTS)
    assert by_engine["tidegate"] == by_engine["datafusion"] == by_engine["duckdb"]
