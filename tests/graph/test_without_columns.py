"""Rows without columns count in graphs: from iterables, files and splits, through nodes, in Datasets and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import tidegate
from tidegate import Client, TaskGraph
from tidegate.executor.datasets import dataset_files
from tidegate.graph import Stream
from tidegate.operators.core.batches import batch_of

from ..executor.plans import number, plan, read, summed
from .executors import PassOn

NONE = pa.schema([])
COUNT = pa.schema([("n", pa.int64())])
ROWS = pa.table({"k": [1, 2, 3], "v": [4, 5, 6]})


class Count:
    """The number of rows."""

    def __init__(self) -> None:
        self.rows = 0

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        self.rows += sum(batch.num_rows for batch in batches)

    def done(self, channel: int) -> pa.RecordBatch:
        return pa.record_batch({"n": [self.rows]})


def bare(rows: int) -> pa.RecordBatch:
    return batch_of((), rows, NONE)


def counts(client: Client, build: Callable[[TaskGraph], Stream], *splits: pa.RecordBatch, **how: object) -> list[int]:
    """What each channel of a node behind these rows counts."""
    graph = TaskGraph()
    graph.blocking("count", Count, build(graph), schema=COUNT, **how)  # type: ignore[arg-type]
    fed = {"rows": splits} if splits else {}
    return client.run_graph(graph, fed).table()["n"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ([bare(3), bare(4)], 7),
        ([pa.Table.from_batches([bare(70_000)])], 70_000),
        ([(), (), ()], 3),
        ([{}, {"more": 1}], 2),
        (lambda: iter([bare(2), (), {}]), 4),
    ],
    ids=["batches", "table", "tuples", "mappings", "function"],
)
def test_iterables_give_them(client: Client, items: Iterable[object], rows: int) -> None:
    assert counts(client, lambda graph: graph.read_iterable(items, NONE)) == [rows]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "arrow"])
def test_files_of_which_no_column_is_read_have_them(client: Client, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    match kind:
        case "parquet":
            parquet.write_table(ROWS, path)
        case "csv":
            csv.write_csv(ROWS, path)
        case "json":
            path.write_text('{"k": 1}\n{}\n{"v": 2}\n')
        case _:
            with pa.ipc.new_file(path, ROWS.schema) as writer:
                writer.write_table(ROWS)
    assert counts(client, lambda graph: getattr(graph, f"read_{kind}")(path, schema=ROWS.schema, columns=[])) == [3]


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (tidegate.SPREAD, [33_335, 33_335, 33_335]),
        (None, [100_005] * 3),
        (lambda batch, channels: np.full(batch.num_rows, channels - 2), [0, 100_005, 0]),
    ],
    ids=["spread", "to all", "by a function"],
)
def test_they_are_dealt_to_channels(client: Client, partition: object, expected: list[int]) -> None:
    def source(graph: TaskGraph) -> Stream:
        return graph.source("rows", NONE, stride=200_000)

    assert counts(client, source, bare(5), bare(100_000), channels=3, partition=partition) == expected


def test_functions_and_unions_pass_them_on(client: Client) -> None:
    def twice(graph: TaskGraph) -> Stream:
        rows = graph.source("rows", NONE)
        return graph.union(rows, graph.read_arrow(ROWS).map(lambda batch: batch.select([]), schema=NONE))

    assert counts(client, twice, bare(5)) == [8]


@pytest.mark.parametrize("most_in_memory", [0, 8 << 20])
def test_datasets_keep_them(client: Client, most_in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_files, "MOST_IN_MEMORY", most_in_memory)
    graph = TaskGraph()
    graph.blocking("kept", PassOn, graph.source("rows", NONE))
    kept = client.run_graph(graph, {"rows": [bare(3), bare(70_000)]})
    counted = plan(summed(ones(read("rows"))), "one", "n")
    for dataset in (kept, client.dataset(bare(70_003))):
        assert (dataset.rows, dataset.table().num_rows, pa.table(dataset).num_rows) == (70_003,) * 3
        assert counts(client, lambda graph, dataset=dataset: graph.read_dataset(dataset)) == [70_003]
        assert client.query(counted, {"rows": dataset})["n"].to_pylist() == [70_003]
        assert client.query(counted, {}, tables={"rows": dataset})["n"].to_pylist() == [70_003]


def ones(relation: object) -> dict[str, object]:
    """Two ones for each row."""
    emit = {"emit": {"outputMapping": [0, 1]}}
    return {"project": {"common": emit, "input": relation, "expressions": [number(1), number(1)]}}


def test_arrow_files_take_them_and_others_refuse_them(client: Client, tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        graph = TaskGraph()
        graph.write(graph.source("rows", NONE), tmp_path / kind, format=kind)
        with pytest.raises(tidegate.InvalidRequest, match=r"cannot hold rows without columns.*arrow"):
            client.create_task(graph)
    graph = TaskGraph()
    graph.write(graph.source("rows", NONE), tmp_path / "arrow", format="arrow")
    with client.create_task(graph) as task:
        task.run_epoch({"rows": bare(5)}).table()
    [path] = (tmp_path / "arrow").glob("*.arrow")
    assert pa.ipc.open_file(path).read_all().num_rows == 5
