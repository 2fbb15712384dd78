"""Inputs of graphs: files, Arrow data, iterables, fed splits; functions on the way."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import tidegate
from tidegate import Client, FileSplit, TaskGraph
from tidegate.graph import Stream

from .executors import NUMBERS, SUMS, PassOn, SumByKey, fed, numbers, sums

TABLE = numbers(1000)


def collected(client: Client, graph: TaskGraph, stream: Stream, **splits: object) -> pa.Table:
    graph.collect(stream)
    return client.run_graph(graph, splits).table()


def test_parquet_tells_its_own_schema(client: Client, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    graph = TaskGraph()
    assert collected(client, graph, graph.read_parquet(tmp_path / "a.parquet")) == TABLE


def test_a_folder_is_read_in_the_order_of_its_names(client: Client, tmp_path: Path) -> None:
    for at in (2, 0, 1):
        pq.write_table(TABLE.slice(at * 300, 300), tmp_path / f"{at}.parquet")
    graph = TaskGraph()
    assert collected(client, graph, graph.read_parquet(tmp_path, columns=["v"])) == TABLE.select(["v"]).slice(0, 900)


def test_files_may_be_splits_with_row_ranges(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(TABLE, path)
    graph = TaskGraph()
    rows = collected(
        client, graph, graph.read_parquet([FileSplit(path, rows=(900, 950)), FileSplit(path, rows=(5, 9))])
    )
    assert rows == pa.concat_tables([TABLE.slice(900, 50), TABLE.slice(5, 4)])


def test_csv_json_and_arrow_files_are_read_with_a_schema(client: Client, tmp_path: Path) -> None:
    csv.write_csv(TABLE, tmp_path / "a.csv")
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, TABLE.to_pylist())))
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), NUMBERS) as writer:
        writer.write_table(TABLE)
    graph = TaskGraph()
    streams = [
        graph.read_csv(tmp_path / "a.csv", NUMBERS),
        graph.read_json(tmp_path / "a.json", NUMBERS),
        graph.read_arrow(tmp_path / "a.arrow"),
        graph.read_arrow(TABLE),
    ]
    assert collected(client, graph, graph.union(*streams)) == pa.concat_tables([TABLE] * 4)


def test_a_column_that_no_file_has_is_refused(client: Client, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    graph = TaskGraph()
    with pytest.raises(tidegate.PlanError, match=r"node 'p': there is no column 'w'; there are: k, v"):
        collected(client, graph, graph.read_parquet(tmp_path / "a.parquet", columns=["w"], name="p"))


def test_a_file_that_is_not_there_names_the_node(client: Client, tmp_path: Path) -> None:
    graph = TaskGraph()
    with pytest.raises(tidegate.NotFound, match=r"none\.parquet does not exist on this machine \(node 'p'\)"):
        collected(client, graph, graph.read_parquet(tmp_path / "none.parquet", name="p"))


def test_a_graph_reads_no_file_outside_of_the_roots(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "inside").mkdir()
    graph = TaskGraph()
    with tidegate.local(roots=[tmp_path / "inside"]) as client, pytest.raises(tidegate.Forbidden):
        collected(client, graph, graph.read_parquet(tmp_path / "a.parquet"))


def test_files_are_read_by_as_many_channels_as_their_reader_has(client: Client, tmp_path: Path) -> None:
    for at in range(4):
        pq.write_table(TABLE.slice(at * 250, 250), tmp_path / f"{at}.parquet")
    graph = TaskGraph()
    files = graph.read_parquet(tmp_path, name="files")
    parts = graph.node("parts", SumByKey, files, channels=4, partition=tidegate.SPREAD, schema=SUMS)
    again = parts.map(lambda batch: batch.rename_columns(["k", "v"]))
    graph.blocking("sums", SumByKey, again, schema=SUMS)
    with client.create_task(graph) as task:
        assert task.run_epoch({}).table() == sums(TABLE)
        scans = {
            operator.channel: operator.rows_out
            for operator in task.statistics().operators
            if operator.operator == "Scan"
        }
    assert scans == {0: 250, 1: 250, 2: 250, 3: 250}


@pytest.mark.parametrize(
    "items",
    [
        [(1, 2), (3, 4)],
        [{"k": 1, "v": 2}, {"v": 4, "k": 3}],
        [pa.record_batch({"k": [1], "v": [2]}), pa.table({"k": [3], "v": [4]})],
        [(1, 2), pa.record_batch({"k": [3], "v": [4]})],
        lambda: iter([(1, 2), (3, 4)]),
    ],
    ids=["tuples", "mappings", "arrow", "mixed", "function"],
)
def test_an_iterable_gives_rows_or_arrow_data_in_every_epoch(client: Client, items: object) -> None:
    graph = TaskGraph()
    graph.collect(graph.read_iterable(items, NUMBERS))  # type: ignore[arg-type]
    with client.create_task(graph) as task:
        epochs = [task.run_epoch({}).table().to_pydict() for _ in range(2)]
    assert epochs == [{"k": [1, 3], "v": [2, 4]}] * 2


def test_mappings_tuples_and_arrow_data_may_follow_each_other(client: Client) -> None:
    data = pa.record_batch([[5], [6]], schema=NUMBERS)
    graph = TaskGraph()
    graph.collect(graph.read_iterable([{"k": 1, "v": 2}, (3, 4), data, (7, 8), {"v": 10, "x": 0}], NUMBERS))
    assert client.run_graph(graph).table().to_pydict() == {"k": [1, 3, 5, 7, None], "v": [2, 4, 6, 8, 10]}


@pytest.mark.parametrize(
    ("item", "reason", "said"),
    [
        (3, "NOT_ROWS", "iterating gave int: an item must be a mapping or a tuple"),
        ("text", "NOT_ROWS", "iterating gave str"),
        (None, "NOT_ROWS", "iterating gave NoneType"),
        ((1,), "NODE_FAILED", r"\(1,\) has 1 values, and the schema has 2 columns"),
        ((1, None), "NULL_IN_REQUIRED", "gave a null in column 'v'"),
        ({"k": 1}, "NULL_IN_REQUIRED", "gave a null in column 'v'"),
    ],
)
def test_what_is_no_row_is_told_with_the_inputs_name(client: Client, item: object, reason: str, said: str) -> None:
    required = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64(), nullable=False)])
    graph = TaskGraph()
    graph.collect(graph.read_iterable([(1, 2), item], required, name="items"))
    with pytest.raises(tidegate.TaskFailed, match=f"node 'items', channel 0, epoch 1: .*{said}") as raised:
        client.run_graph(graph)
    assert raised.value.reason == reason


def test_an_iterator_is_one_epochs_unless_it_says_how_many_rows_are(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(graph.read_iterable(iter([(1, 2)]), NUMBERS, name="once"))
    with client.create_task(graph) as task:
        assert task.run_epoch({}).rows == 1
        with pytest.raises(
            tidegate.TaskFailed, match="node 'once', channel 0, epoch 2: an earlier epoch has used up its iterator"
        ) as raised:
            task.run_epoch({})
    assert raised.value.reason == "ITERATOR_USED_UP"


@pytest.mark.parametrize("stride", [1, 3, 100])
@pytest.mark.parametrize("enough", [1, 3, 10])
def test_an_endless_iterator_is_cut_into_epochs_whatever_is_wanted_of_them(
    client: Client, stride: int, enough: int
) -> None:
    from .executors import First

    graph = TaskGraph()
    endless = ((number % 7, number) for number in itertools.count())
    rows = graph.read_iterable(endless, NUMBERS, epoch_rows=5, stride=stride)
    graph.blocking("first", lambda: First(enough), rows)
    with client.create_task(graph) as task:
        epochs = [task.run_epoch({}).table()["v"].to_pylist() for _ in range(3)]
    assert epochs == [list(range(start, start + min(enough, 5))) for start in (0, 5, 10)]


def test_an_iterator_with_epochs_ends_with_what_is_left(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(graph.read_iterable(iter([TABLE.slice(0, 7)]), NUMBERS, epoch_rows=5))
    with client.create_task(graph) as task:
        epochs = [task.run_epoch({}) for _ in range(3)]
    assert [epoch.rows for epoch in epochs] == [epoch.statistics.rows_in for epoch in epochs] == [5, 2, 0]


def test_an_iterators_own_end_is_reached_when_nobody_reads_on(client: Client) -> None:
    from .executors import First

    closed = []

    def rows() -> object:
        try:
            yield from ((number, number) for number in itertools.count())
        finally:
            closed.append(True)

    graph = TaskGraph()
    graph.blocking("first", First, graph.read_iterable(rows, NUMBERS, stride=1))
    client.run_graph(graph)
    assert closed == [True]


def test_a_function_on_an_edge_changes_batches(client: Client) -> None:
    graph = TaskGraph()
    odd = fed(graph).map(lambda batch: batch.filter(pc.equal(pc.bit_wise_and(batch["v"], 1), 1)))
    doubled = odd.map(lambda batch: pa.record_batch({"twice": pc.multiply(batch["v"], 2)}))
    rows = collected(client, graph, doubled, numbers=TABLE)
    query = "SELECT v * 2 AS twice FROM t WHERE v % 2 = 1 ORDER BY v"
    assert rows == duckdb.from_arrow(TABLE).query("t", query).to_arrow_table().cast(rows.schema)


def test_a_union_has_all_rows_of_one_stream_after_the_other(client: Client) -> None:
    graph = TaskGraph()
    both = graph.union(fed(graph, "b"), fed(graph, "a"))
    rows = collected(client, graph, graph.node("node", PassOn, both), a=numbers(3), b=numbers(2, start=50))
    assert rows["v"].to_pylist() == [50, 51, 0, 1, 2]


def test_splits_of_another_schema_are_refused_as_a_plans_are(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    with client.create_task(graph) as task, pytest.raises(tidegate.SplitError, match="source 'numbers'"):
        task.add_split("numbers", pa.table({"k": ["one"], "v": [1]}))
