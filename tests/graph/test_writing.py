"""A graph that ends in files: one an epoch, which is there at its barrier or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate import Client, TaskGraph

from .executors import PassOn, fed, numbers


def written(folder: Path, **more: str) -> TaskGraph:
    graph = TaskGraph()
    graph.write(fed(graph), folder, **more)
    return graph


def arrow(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


@pytest.mark.parametrize(("format_", "read"), [("parquet", pq.read_table), ("arrow", arrow), ("csv", pa.csv.read_csv)])
def test_each_epoch_is_a_file(format_: str, read: Callable[[Path], pa.Table], tmp_path: Path, client: Client) -> None:
    with client.create_task(written(tmp_path / "out", format=format_)) as task:
        for epoch in range(2):
            assert task.run_epoch({"numbers": numbers(100, start=epoch)}).rows == 0
    files = sorted((tmp_path / "out").iterdir())
    assert [read(path)["v"].to_pylist() for path in files] == [list(range(100)), list(range(1, 101))]


class Fails(PassOn):
    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        if batches[0]["v"][0].as_py() < 0:
            raise ValueError("no negative numbers")
        return batches


def test_an_epoch_that_fails_leaves_no_file(tmp_path: Path, client: Client) -> None:
    graph = TaskGraph()
    graph.write(graph.node("fails", Fails, fed(graph)), tmp_path / "out")
    with client.create_task(graph, on_error="skip_epoch") as task:
        with pytest.raises(tidegate.EpochError, match="no negative numbers"):
            task.run_epoch({"numbers": numbers(10, start=-1)})
        task.run_epoch({"numbers": numbers(10)})
    [file] = (tmp_path / "out").iterdir()
    assert pq.read_table(file) == numbers(10)


def test_files_of_other_columns_are_not_added_to(tmp_path: Path, client: Client) -> None:
    pq.write_table(pa.table({"other": [1]}), tmp_path / "there.parquet")
    with client.create_task(written(tmp_path)) as task, pytest.raises(tidegate.TaskFailed, match="other columns"):
        task.run_epoch({"numbers": numbers(10)})


@pytest.mark.parametrize(
    ("more", "reason"), [({"format": "xlsx"}, "UNKNOWN_FORMAT"), ({"mode": "overwrite"}, "UNKNOWN_MODE")]
)
def test_what_cannot_be_written_is_refused(more: dict[str, str], reason: str, tmp_path: Path, client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest) as raised:
        client.create_task(written(tmp_path / "out", **more))
    assert raised.value.reason == reason


def test_a_folder_in_a_folder_that_is_not_there_is_refused(tmp_path: Path, client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="there is no folder"):
        client.create_task(written(tmp_path / "not there" / "out"))


def test_what_is_written_is_no_dataset(tmp_path: Path, client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest) as raised:
        client.run_graph(written(tmp_path), {"numbers": numbers(1)})
    assert raised.value.reason == "GRAPH_WRITES"
