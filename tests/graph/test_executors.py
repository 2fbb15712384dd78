"""The calls of an executor: their order, their batches, and what is made anew."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import Client, TaskGraph

from ..searching import tries
from .executors import CALLS, NUMBERS, Calls, First, HashJoin, PassOn, SumByKey, fed, numbers, sums


def calls_of(client: Client, graph: TaskGraph, splits: dict[str, object]) -> list[tuple[object, ...]]:
    with client.create_task(graph) as task:
        table = task.run_epoch(splits).table()
    return [tuple(row.values()) for row in table.to_pylist()]


def test_an_executor_sees_its_rows_and_then_their_end(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("sum", SumByKey, fed(graph), schema=pa.schema([("k", pa.int64()), ("total", pa.int64())]))
    assert client.run_graph(graph, {"numbers": numbers(1000)}).table() == sums(numbers(1000))


def test_rows_come_in_batches_of_65536_however_they_were_fed(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("calls", Calls, fed(graph), schema=CALLS)
    table = numbers(150_000)
    for cut in (1_000, 65_536, 150_000):
        batches = pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=cut))
        assert calls_of(client, graph, {"numbers": batches}) == [
            ("rows", 65_536, 0, 0),
            ("rows", 65_536, 0, 65_536),
            ("rows", 18_928, 0, 131_072),
            ("done", 0, 0, None),
        ]


def test_an_inputs_stride_is_how_much_is_seen_at_a_time(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("calls", Calls, graph.source("numbers", NUMBERS, stride=4), schema=CALLS)
    assert [rows for _, rows, _, _ in calls_of(client, graph, {"numbers": numbers(10)})] == [4, 4, 2, 0]


def test_streams_are_read_in_turn_a_batch_of_each(client: Client) -> None:
    graph = TaskGraph()
    streams = {name: graph.source(name, NUMBERS, stride=2) for name in ("b", "a")}
    graph.blocking("calls", Calls, streams, schema=CALLS)
    seen = calls_of(client, graph, {"a": numbers(3), "b": numbers(5)})
    assert [call for call, *_ in seen] == ["b", "a", "b", "a", "b", "done"]


def test_a_stream_that_comes_after_another_waits_for_its_end(client: Client) -> None:
    graph = TaskGraph()
    streams = {name: graph.source(name, NUMBERS, stride=2) for name in ("probe", "build")}
    graph.blocking("calls", Calls, streams, after={"probe": "build"}, schema=CALLS)
    seen = calls_of(client, graph, {"build": numbers(5), "probe": numbers(3)})
    assert [call for call, *_ in seen] == ["build", "build", "build", "probe", "probe", "done"]


def test_an_executor_without_rows_is_only_told_of_the_end(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("calls", Calls, fed(graph), schema=CALLS)
    assert calls_of(client, graph, {}) == [("done", 0, 0, None)]


def test_a_join_builds_before_it_probes_on_any_number_of_channels(client: Client) -> None:
    build, probe = numbers(40, keys=11), numbers(300, keys=13)
    expected = probe.join(build.rename_columns(["k", "w"]), "k", join_type="inner").select(["k", "v", "w"])
    for channels in (1, 3):
        graph = TaskGraph()
        streams = {name: fed(graph, name) for name in ("build", "probe")}
        options = {"partition": "k", "channels": channels, "after": {"probe": "build"}}
        graph.blocking("join", HashJoin, streams, schema=HashJoin.schema, **options)
        rows = client.run_graph(graph, {"build": build, "probe": probe}).table()
        order = [("v", "ascending"), ("w", "ascending")]
        assert rows.sort_by(order) == expected.sort_by(order)


def test_every_channel_and_epoch_has_an_executor_of_its_own(client: Client) -> None:
    numbers_ = itertools.count()

    class Numbered(PassOn):
        def __init__(self) -> None:
            self.number = next(numbers_)

        def done(self, channel: int) -> pa.RecordBatch:
            return pa.record_batch({"k": [channel], "v": [self.number]}, schema=NUMBERS)

    graph = TaskGraph()
    graph.blocking("numbered", Numbered, fed(graph), channels=3, partition="k")
    with client.create_task(graph) as task:
        epochs = [task.run_epoch({}).table().to_pydict() for _ in range(2)]
    assert [epoch["k"] for epoch in epochs] == [[0, 1, 2], [0, 1, 2]]
    assert sorted(epochs[0]["v"]) + sorted(epochs[1]["v"]) == [0, 1, 2, 3, 4, 5]


def test_a_graph_is_a_task_whose_epochs_answer_for_their_own_splits_alone(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("sum", SumByKey, fed(graph), schema=pa.schema([("k", pa.int64()), ("total", pa.int64())]))
    with client.create_task(graph) as task:
        for start in (0, 500):
            task.add_split("numbers", numbers(100, start=start))
            task.add_split("numbers", numbers(100, start=start + 100))
            task.request_barrier()
        task.no_more_splits()
        assert [epoch.table() for epoch in task.epochs()] == [sums(numbers(200)), sums(numbers(200, start=500))]


@pytest.mark.parametrize("form", ["none", "batch", "table", "list", "generator", "empty"])
def test_rows_may_be_given_in_any_form_of_arrow(client: Client, form: str) -> None:
    rows = numbers(2)
    forms = {
        "none": None,
        "batch": rows.to_batches()[0],
        "table": rows,
        "list": [rows.slice(0, 1), None, rows.slice(1).to_batches()[0]],
        "generator": iter(rows.to_batches()),
        "empty": rows.slice(0, 0),
    }

    class Gives(PassOn):
        def done(self, channel: int) -> object:
            return forms[form]

    graph = TaskGraph()
    graph.blocking("gives", Gives, fed(graph))
    assert client.run_graph(graph, {"numbers": []}).table() == (rows.slice(0, 0) if form in ("none", "empty") else rows)


@settings(max_examples=tries(25), deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 9), st.integers(1, 3))
def test_all_rows_pass_once_and_in_order_however_they_are_cut(sizes: list[int], stride: int, nodes: int) -> None:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    graph = TaskGraph()
    stream = graph.source("numbers", NUMBERS, stride=stride)
    for node in range(nodes):
        stream = graph.node(f"node{node}", PassOn, stream)
    graph.collect(stream)
    with tidegate.local() as client:
        splits = [numbers(size, start=start) for size, start in zip(sizes, starts, strict=True)]
        rows = client.run_graph(graph, {"numbers": splits}).table()
    assert rows == numbers(sum(sizes))


def test_an_executor_that_has_enough_stops_the_reading(client: Client) -> None:
    read = []

    def endless() -> object:
        for number in itertools.count():
            read.append(number)
            yield (number % 7, number)

    graph = TaskGraph()
    graph.blocking("first", First, graph.read_iterable(endless, NUMBERS, stride=2))
    assert client.run_graph(graph).table() == numbers(3)
    assert len(read) == 4  # two batches of two rows


def test_an_executor_may_have_enough_before_the_first_row(client: Client) -> None:
    read = []
    graph = TaskGraph()
    rows = graph.read_iterable(lambda: map(read.append, itertools.count()), NUMBERS)
    graph.blocking("first", lambda: First(0), rows)
    assert client.run_graph(graph).rows == 0
    assert read == []


def test_having_enough_of_one_stream_leaves_the_others_open(client: Client) -> None:
    class OneOfA(Calls):
        def finished(self, stream: str, channel: int) -> bool:
            return stream == "a" and any(call == "a" for call, *_ in self.rows)

    graph = TaskGraph()
    streams = {name: graph.source(name, NUMBERS, stride=1) for name in ("a", "b")}
    graph.blocking("calls", OneOfA, streams, schema=CALLS)
    seen = calls_of(client, graph, {"a": numbers(3), "b": numbers(3)})
    assert [call for call, *_ in seen] == ["a", "b", "b", "b", "done"]


def test_enough_at_the_end_of_a_graph_stops_an_endless_start_through_channels(client: Client) -> None:
    graph = TaskGraph()
    endless = graph.read_iterable(lambda: ((n % 7, n) for n in itertools.count()), NUMBERS, stride=1000)
    spread = graph.node("spread", PassOn, endless, channels=3, partition="k")
    graph.blocking("first", lambda: First(10), spread)
    assert client.run_graph(graph, queue_bytes=1 << 20).rows == 10


def test_early_termination_reads_only_the_row_groups_it_needs(client: Client, tmp_path: object) -> None:
    import pyarrow.parquet as pq

    path = f"{tmp_path}/many.parquet"
    pq.write_table(numbers(100_000), path, row_group_size=1_000)
    graph = TaskGraph()
    graph.blocking("first", First, graph.read_parquet(path, name="many", stride=10))
    with client.create_task(graph) as task:
        assert task.run_epoch({}).table() == numbers(3)
        [scan] = [operator for operator in task.statistics().operators if operator.operator == "Scan"]
    assert scan.rows_out < 100_000


def test_a_class_that_takes_arguments_is_given_as_a_function(client: Client) -> None:
    class Added(PassOn):
        def __init__(self, more: int) -> None:
            self.more = more

        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
            for batch in batches:
                values = pa.array([value + self.more for value in batch["v"].to_pylist()])
                yield pa.record_batch([batch["k"], values], schema=NUMBERS)

    graph = TaskGraph()
    graph.blocking("added", lambda: Added(5), fed(graph))
    assert client.run_graph(graph, {"numbers": numbers(3)}).table()["v"].to_pylist() == [5, 6, 7]
