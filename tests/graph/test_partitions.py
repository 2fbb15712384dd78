"""The channel of each row; neither threads nor cuts show in the result."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.operators.arrays.digest import digest

from .executors import NUMBERS, SUMS, HashJoin, PassOn, SumByKey, fed, numbers


class Labelled:
    """Its rows with the number of their channel in the place of k."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
        for batch in batches:
            yield pa.record_batch([pa.array([channel] * batch.num_rows, pa.int64()), batch["v"]], schema=NUMBERS)

    def done(self, channel: int) -> None:
        return None


def channels_of(client: Client, partition: object, table: pa.Table, channels: int = 3) -> dict[int, list[int]]:
    """The values of v on each channel, in order."""
    graph = TaskGraph()
    graph.blocking("labelled", Labelled, fed(graph), channels=channels, partition=partition)
    by_channel: dict[int, list[int]] = {channel: [] for channel in range(channels)}
    for row in client.run_graph(graph, {"numbers": table}).table().to_pylist():
        by_channel[row["k"]].append(row["v"])
    return by_channel


def test_none_gives_all_rows_to_all_channels(client: Client) -> None:
    assert channels_of(client, None, numbers(10)) == {channel: list(range(10)) for channel in range(3)}


def test_equal_keys_go_to_one_channel_in_their_order(client: Client) -> None:
    by_channel = channels_of(client, "k", numbers(1000))
    homes = {value % 7: channel for channel, values in by_channel.items() for value in values}
    expected = {channel: [v for v in range(1000) if homes[v % 7] == channel] for channel in range(3)}
    assert {channel: sorted(values) for channel, values in by_channel.items()} == expected


def test_several_columns_are_one_key(client: Client) -> None:
    by_channel = channels_of(client, ("k", "v"), pa.concat_tables([numbers(50), numbers(50)]))
    assert all(values.count(value) == 2 for values in by_channel.values() for value in values)
    assert sorted(value for values in by_channel.values() for value in values) == sorted([*range(50), *range(50)])


def test_a_function_chooses_the_channel_of_each_row(client: Client) -> None:
    def thirds(batch: pa.RecordBatch, channels: int) -> object:
        return np.asarray(batch["v"]) * channels // 9

    assert channels_of(client, thirds, numbers(9)) == {0: [0, 1, 2], 1: [3, 4, 5], 2: [6, 7, 8]}


def test_spread_rows_are_each_on_one_channel(client: Client) -> None:
    by_channel = channels_of(client, tidegate.SPREAD, numbers(300_000))
    assert sorted(value for values in by_channel.values() for value in values) == list(range(300_000))
    assert all(by_channel.values())


def test_spread_rows_stay_on_their_channel_from_node_to_node(client: Client) -> None:
    graph = TaskGraph()
    first = graph.node("first", Labelled, fed(graph), channels=3, partition="k")
    same = graph.node("same", PassOn, first, channels=3, partition=tidegate.SPREAD)
    again = graph.node("again", Labelled, first, channels=3, partition=tidegate.SPREAD)
    graph.collect(graph.union(same, again))
    rows = client.run_graph(graph, {"numbers": numbers(100)}).table()
    assert rows.group_by(["k", "v"]).aggregate([([], "count_all")])["count_all"].to_pylist() == [2] * 100


@pytest.mark.parametrize("gave", [[0.5], [3], [-1], "x", [0, 1], None], ids=str)
def test_what_is_no_channel_of_each_row_is_refused_with_the_nodes_name(client: Client, gave: object) -> None:
    said = r"node 'labelled', channel \d, epoch 1: its partition function gave .*from 0 to 2"
    with pytest.raises(tidegate.TaskFailed, match=said) as raised:
        channels_of(client, lambda batch, channels: gave, numbers(1))
    assert raised.value.reason == "BAD_CHANNEL"


def test_a_partition_function_that_breaks_is_told_with_the_channel_that_gave_the_rows(client: Client) -> None:
    def fails_for_one(batch: pa.RecordBatch, channels: int) -> pa.Array:
        return pa.array([1 // (value - 1) % channels for value in batch["v"].to_pylist()])

    graph = TaskGraph()
    first = graph.node("first", PassOn, fed(graph), channels=2, partition=lambda batch, channels: batch["v"])
    graph.blocking("second", PassOn, first, channels=2, partition=fails_for_one)
    with pytest.raises(tidegate.TaskFailed, match=r"(?s)node 'second', channel 1, epoch 1: .*in fails_for_one") as no:
        client.run_graph(graph, {"numbers": numbers(2)})
    assert isinstance(no.value.__cause__, tidegate.NodeError)


def test_a_result_read_twice_is_made_once(client: Client) -> None:
    row_counts = []

    class Counted(PassOn):
        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
            row_counts.append(sum(batch.num_rows for batch in batches))
            return batches

    graph = TaskGraph()
    shared = graph.node("shared", Counted, fed(graph))
    total = graph.node("total", SumByKey, shared, schema=SUMS)
    as_numbers = total.map(lambda batch: batch.rename_columns(["k", "v"]))
    streams = {"build": as_numbers, "probe": shared}
    graph.blocking("join", HashJoin, streams, schema=HashJoin.schema, after={"probe": "build"})
    rows = client.run_graph(graph, {"numbers": numbers(500)}).table()
    query = "SELECT k, v, sum(v) OVER (PARTITION BY k)::BIGINT AS w FROM t ORDER BY v"
    expected = duckdb.from_arrow(numbers(500)).query("t", query)
    assert rows.sort_by("v").to_pydict() == expected.to_arrow_table().to_pydict()
    assert sum(row_counts) == 500


def strict_digest(threads: int, cut: int, rows: int = 90_000) -> str:
    """Of a graph with a join, a diamond and several channels."""
    graph = TaskGraph()
    left = graph.node("first", PassOn, fed(graph, "left"), channels=3, partition="k")
    doubled = left.map(lambda batch: pa.record_batch([batch["k"], batch["v"]], schema=NUMBERS), name="doubled")
    totals = graph.node("totals", SumByKey, doubled, channels=2, partition="k", schema=SUMS)
    build = totals.map(lambda batch: batch.rename_columns(["k", "v"]))
    streams = {"probe": left, "build": build, "more": fed(graph, "right")}

    class Join(HashJoin):
        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
            return super().execute(batches, "build" if stream == "more" else stream, channel)

    options = {"partition": {"probe": "k", "build": "k", "more": "k"}, "after": {"probe": ("build", "more")}}
    graph.blocking("join", Join, streams, channels=3, schema=HashJoin.schema, **options)
    whole = {"left": numbers(rows, keys=1009), "right": numbers(2000, keys=1009)}
    cuts = {name: table.combine_chunks().to_batches(max_chunksize=cut) for name, table in whole.items()}
    splits = {name: pa.Table.from_batches(batches) for name, batches in cuts.items()}
    with tidegate.local(threads=threads) as client:
        result = client.run_graph(graph, splits).table()
    return digest(result.schema, result.to_batches())


def test_a_strict_graph_gives_the_same_rows_in_the_same_order_on_any_threads_and_cuts() -> None:
    assert len({strict_digest(threads, cut) for threads, cut in ((1, 7_777), (4, 65_536), (8, 200_000))}) == 1


def test_a_relaxed_graph_gives_the_same_rows(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("sum", SumByKey, fed(graph), channels=2, partition="k", schema=SUMS)
    strict = client.run_graph(graph, {"numbers": numbers(5000)}).table()
    relaxed = client.run_graph(graph, {"numbers": numbers(5000)}, determinism="relaxed").table()
    assert relaxed.sort_by("k") == strict.sort_by("k")
