"""Tasks of a client over a restart: files, uploads, tables, tables that the plan writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.proto.values import Durability, TaskPhase

orders = sub.read_named_table("orders", {"n": sub.i64})
PLAN = orders.filter(sub.col("n") > 1).to_plan()
ROWS = [{"n": 2}, {"n": 3}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "orders.parquet")
    return tmp_path / "orders.parquet"


def service(folder: Path) -> tidegate.Client:
    return tidegate.local(data=folder / "data", roots=[folder])


@pytest.mark.parametrize("uploaded", [False, True])
@pytest.mark.parametrize("table", [False, True])
def test_files_are_read_again(tmp_path: Path, file: Path, uploaded: bool, table: bool) -> None:
    orders_file = tidegate.upload(file) if uploaded else str(file)
    with service(tmp_path) as client:
        if table:
            task = client.create_task(PLAN, tables={"orders": orders_file})
        else:
            task = client.create_task(PLAN)
            task.add_split("orders", orders_file)
        task.no_more_splits()
    if uploaded:
        file.unlink()
    with service(tmp_path) as client:
        assert client.task(task.id).read_epoch().to_pylist() == ROWS


def test_inline_tables_are_kept(tmp_path: Path) -> None:
    with service(tmp_path) as client:
        task = client.create_task(PLAN, tables={"orders": pa.table({"n": [1, 2, 3]})})
        task.no_more_splits()
    with service(tmp_path) as client:
        assert client.task(task.id).read_epoch().to_pylist() == ROWS


@pytest.mark.parametrize("table", [False, True])
def test_a_file_that_has_changed_fails_its_task_alone(tmp_path: Path, file: Path, table: bool) -> None:
    with service(tmp_path) as client:
        other = client.create_task(PLAN)
        other.add_split("orders", pa.table({"n": [1, 2, 3]}))
        task = client.create_task(PLAN, tables={"orders": str(file)} if table else None)
        if not table:
            task.add_split("orders", str(file))
        task.no_more_splits()
    pq.write_table(pa.table({"n": [5, 6, 7, 8]}), file)
    with service(tmp_path) as client:
        with pytest.raises(tidegate.TaskFailed) as raised:
            client.task(task.id).read_epoch()
        assert raised.value.reason == "FILE_CHANGED"
        again = client.task(other.id)
        again.request_barrier()
        assert again.read_epoch().to_pylist() == ROWS


def test_a_file_that_has_come_into_the_folder_of_a_table_fails_its_task_and_is_never_read(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    pq.write_table(pa.table({"n": [1, 2, 3]}), folder / "b.parquet")
    with service(tmp_path) as client:
        task = client.create_task(PLAN, tables={"orders": str(folder)})
        task.no_more_splits()
        assert task.read_epoch().to_pylist() == ROWS
    pq.write_table(pa.table({"n": [7, 8]}), folder / "a.parquet")
    with service(tmp_path) as client:
        with pytest.raises(tidegate.TaskFailed, match=r"a\.parquet is among the files") as failed:
            client.task(task.id).read_epoch()
        assert failed.value.reason == "FILE_CHANGED"
        (folder / "a.parquet").unlink()
        client.task(task.id).recover()
        assert client.task(task.id).read_epoch().to_pylist() == ROWS


def test_a_graph_says_that_it_is_not_durable_and_ends_with_its_service(tmp_path: Path) -> None:
    graph = tidegate.TaskGraph()
    numbers = graph.source("numbers", pa.schema([("n", pa.int64())]))
    graph.collect(graph.sql("same", "SELECT n FROM numbers", {"numbers": numbers}))
    with service(tmp_path) as client:
        task = client.create_task(graph)
        assert any("the task is not durable" in warning for warning in task.info().warnings)
        task.add_split("numbers", pa.table({"n": [1]}))
    with service(tmp_path) as client:
        assert not client.tasks()
        with pytest.raises(tidegate.NotFound) as raised:
            client.task(task.id)
        assert raised.value.reason == "SERVER_RESTARTED"


def test_a_query_and_a_task_without_durability_leave_nothing(tmp_path: Path) -> None:
    with service(tmp_path) as client:
        client.query(PLAN, {"orders": pa.table({"n": [1]})})
        assert client.create_task(PLAN, durability="none").options.durability is Durability.NONE
    with service(tmp_path) as client:
        assert client.tasks() == []


def test_a_task_without_work_is_running_again(tmp_path: Path) -> None:
    with service(tmp_path) as client:
        task = client.create_task(PLAN)
    with service(tmp_path) as client:
        assert client.task(task.id).info().state is TaskPhase.RUNNING
