"""Look-ups in indexes that plans ask for, end to end, against DuckDB; what is made once stays made."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from substrait import algebra_pb2 as algebra

import tidegate
from tidegate.executor.tasks import resting
from tidegate.operators.indexes.sql import SqlIndex
from tidegate.relations import IndexLookupJoin

from ..on_channels import on_channels
from .operated_plans import I64, TEXT, operated, picked, plan, read

NAMES = pa.table({"id": [3, 1, 2, 2], "name": ["three", "one", "two", "zwei"]})
EVENTS = pa.table({"k": [2, 9, None, 3], "v": [10, 20, 30, 40]})
INNER, LEFT = IndexLookupJoin.TYPE_INNER, IndexLookupJoin.TYPE_LEFT
COLUMNS = ["k", "v", "id", "name"]
EXPECTED = {
    INNER: [(2, 10, 2, "two"), (2, 10, 2, "zwei"), (3, 40, 3, "three")],
    LEFT: [(2, 10, 2, "two"), (2, 10, 2, "zwei"), (9, 20, None, None), (None, 30, None, None), (3, 40, 3, "three")],
}


def looked_up(type_: int = INNER, table: algebra.Rel | None = None, **how: object) -> bytes:
    detail = IndexLookupJoin(keys=[IndexLookupJoin.Key(left=0, right=0)], type=type_, **how)
    right = read("names", {"id": I64, "name": TEXT}) if table is None else table
    return plan(operated(detail, read("events", {"k": I64, "v": I64}), right), COLUMNS)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("type_", [INNER, LEFT])
def test_rows_of_a_bound_table_are_found_in_the_order_of_the_input(type_: int) -> None:
    with tidegate.local() as client, client.create_task(looked_up(type_), tables={"names": NAMES}) as task:
        assert rows(task.run_epoch({"events": EVENTS}).table()) == EXPECTED[type_]


@pytest.mark.parametrize("channels", [1, 3])
def test_the_rows_and_their_order_are_the_same_on_any_number_of_channels(channels: int, tmp_path: Path) -> None:
    events = pa.table({"k": [at % 7 for at in range(5_000)], "v": range(5_000)})
    pq.write_table(events, tmp_path / "events.parquet", row_group_size=700)
    names = NAMES  # noqa: F841 (DuckDB finds it by name)
    sql = "SELECT k, v, id, name FROM events JOIN names ON k = id ORDER BY v, name"
    with (
        tidegate.local() as client,
        client.create_task(looked_up(), tables={"names": NAMES}, **on_channels(channels)) as task,
    ):
        result = rows(task.run_epoch({"events": str(tmp_path / "events.parquet")}).table())
    assert result == duckdb.sql(sql).fetchall()


def test_the_index_is_made_once_for_all_epochs() -> None:
    with tidegate.local() as client, client.create_task(looked_up(), tables={"names": NAMES}) as task:
        for _ in range(3):
            task.run_epoch({"events": EVENTS}).table()
        counts = {operator.operator: operator for operator in task.statistics().operators}
    assert (counts["Index"].runs, counts["Index"].rows_in) == (1, 4)
    assert (counts["IndexLookupJoin"].runs, counts["IndexLookupJoin"].rows_out) == (3, 9)


def test_an_index_can_be_made_of_a_whole_subtree() -> None:
    table = picked(read("names", {"id": I64, "name": TEXT}), 2, [0, 1])
    with tidegate.local() as client, client.create_task(looked_up(table=table), tables={"names": NAMES}) as task:
        assert rows(task.run_epoch({"events": EVENTS}).table()) == EXPECTED[INNER]


def test_rows_come_before_the_seal() -> None:
    with tidegate.local() as client, client.create_task(looked_up(), tables={"names": NAMES}) as task:
        task.add_split("events", EVENTS)
        (frame,) = task.next(wait=30)
        assert isinstance(frame, tidegate.Data)


@pytest.mark.parametrize("prefetch", [0, 4])
def test_rows_are_found_in_parquet_files(prefetch: int, tmp_path: Path) -> None:
    pq.write_table(NAMES, tmp_path / "names.parquet")
    tables = {"names": str(tmp_path / "names.parquet")}
    with (
        tidegate.local() as client,
        client.create_task(looked_up(LEFT, index="file", prefetch=prefetch), tables=tables) as task,
    ):
        assert rows(task.run_epoch({"events": EVENTS}).table()) == EXPECTED[LEFT]


@pytest.mark.parametrize("prefetch", [0, 4])
def test_rows_are_found_in_a_database_that_the_owner_has_named(prefetch: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "names.db")) as database, database:
        database.execute("CREATE TABLE names (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", rows(NAMES))
    plan_ = looked_up(index="sql", options={"database": "crm"}, prefetch=prefetch)
    with tidegate.local(databases={"crm": tmp_path / "names.db"}) as client, client.create_task(plan_) as task:
        assert list(task.sources) == ["events"]
        assert rows(task.run_epoch({"events": EVENTS}).table()) == EXPECTED[INNER]


def test_a_task_that_rests_has_no_connection_and_finds_the_rows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Semaphore(0)
    close = SqlIndex.close
    monkeypatch.setattr(SqlIndex, "close", lambda self: (close(self), closed.release()))
    monkeypatch.setattr(resting, "IDLE_SECONDS", 0.05)
    with closing(sqlite3.connect(tmp_path / "names.db")) as database, database:
        database.execute("CREATE TABLE names (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", rows(NAMES))
    plan_ = looked_up(index="sql", options={"database": "crm"})
    with tidegate.local(databases={"crm": tmp_path / "names.db"}) as client, client.create_task(plan_) as task:
        for _ in range(2):
            assert rows(task.run_epoch({"events": EVENTS}).table()) == EXPECTED[INNER]
            assert closed.acquire(timeout=20)


@pytest.mark.parametrize("kind", ["arrow", "file", "sql"])
@pytest.mark.parametrize("mode", ["error", "null"])
def test_a_column_that_an_index_lacks_is_an_error_or_null(kind: str, mode: str, tmp_path: Path) -> None:
    pq.write_table(NAMES.rename_columns(["id", "title"]), tmp_path / "names.parquet")
    with closing(sqlite3.connect(tmp_path / "names.db")) as database, database:
        database.execute("CREATE TABLE names (id INTEGER, title TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", rows(NAMES))
    tables = {} if kind == "sql" else {"names": str(tmp_path / "names.parquet")}
    how = {"index": kind, "options": {"database": "crm"} if kind == "sql" else {}}
    with tidegate.local(databases={"crm": tmp_path / "names.db"}) as client:
        if mode == "null":
            with client.create_task(looked_up(**how), tables=tables, missing_columns="null") as task:
                result = rows(task.run_epoch({"events": EVENTS}).table())
            assert result == [(*row[:3], None) for row in EXPECTED[INNER]]
            return
        with (
            pytest.raises(tidegate.TidegateError, match=r"column 'name' .*is missing; there are: 'id', 'title'") as no,
            client.create_task(looked_up(**how), tables=tables) as task,
        ):
            task.run_epoch({"events": EVENTS}).table()
    assert no.value.reason == "MISSING_COLUMN"


def test_a_database_without_a_name_in_this_service_is_refused_when_the_task_is_made() -> None:
    plan_ = looked_up(index="sql", options={"database": "crm"})
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match="there is no database 'crm'"):
        client.create_task(plan_)


def test_an_index_over_a_fed_source_is_refused() -> None:
    with tidegate.local() as client, pytest.raises(tidegate.PlanError, match="must be static"):
        client.create_task(looked_up())


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"index": "tree"}, "unknown kind of index 'tree'; known are arrow, file, sql"),
        ({"index": "sql"}, "needs the option 'database'"),
        ({"options": {"path": "/etc/passwd"}}, "has no options"),
    ],
)
def test_what_an_index_cannot_be_is_a_problem_of_the_plan(how: dict[str, object], message: str) -> None:
    with tidegate.local() as client:
        (problem,) = client.validate(looked_up(**how))
    assert message in problem.message
    assert problem.place == "relations[0].root.input.extension_multi.detail"


def test_an_index_that_is_too_large_fails_with_what_would_be_right() -> None:
    large = pa.table({"id": range(600_000), "name": ["x" * 20] * 600_000})
    with (
        tidegate.local() as client,
        client.create_task(looked_up(), tables={"names": large}, memory_limit=64 << 20) as task,
        pytest.raises(tidegate.TaskFailed, match="raise memory_limit"),
    ):
        task.run_epoch({"events": EVENTS}).table()


def test_it_is_explained_where_rows_are_looked_up() -> None:
    with tidegate.local() as client:
        text = client.explain(looked_up(), static_sources=["names"]).text
    assert "index0: look-ups read this index: made once per task" in text
    assert "look-up, inner, 1 keys, arrow index index0" in text
