"""Graphs that run here and on Spark, and what is compared of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import tidegate
from tests.graph.executors import CALLS, NUMBERS, SUMS, Calls, First, HashJoin, PassOn, SumByKey, fed, numbers
from tidegate import Client, TaskGraph
from tidegate.operators.arrays.digest import digest

OneExchange = tuple[TaskGraph, Mapping[str, pa.Table]]
"""A graph, and what each of its epochs is fed."""

ROWS = numbers(70_000)
FEW = numbers(5_000)


def by_remainder(batch: pa.RecordBatch, channels: int) -> np.ndarray:
    return batch["v"].to_numpy() % channels


def large(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch["v"], 20_000))


def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.rename_columns(["k", "w"])


def endless_pairs() -> Iterator[tuple[int, int]]:
    return ((at % 5, at) for at in itertools.count())


def partitioned(folder: Path, client: Client) -> OneExchange:
    """A function on an edge, streams dealt in every way, one after the other, one read by two nodes."""
    graph = TaskGraph()
    rows = fed(graph).map(large, name="large")
    sums = graph.node("sums", SumByKey, rows, schema=SUMS, channels=2, partition="k")
    few = graph.source("few", NUMBERS, stride=700)
    streams = {"build": few, "probe": rows}
    joined = graph.node(
        "join",
        HashJoin,
        streams,
        schema=HashJoin.schema,
        channels=3,
        partition={"build": None, "probe": tidegate.SPREAD},
        after={"probe": "build"},
    )
    totals = sums.map(lambda batch: batch.rename_columns(["k", "v"]), schema=NUMBERS)
    streams = {"all": joined, "totals": totals, "few": few}
    options = {"channels": 2, "partition": {"all": by_remainder, "totals": None, "few": by_remainder}}
    graph.blocking("calls", Calls, streams, schema=CALLS, **options)
    return graph, {"numbers": ROWS, "few": FEW.slice(0, 7)}


def ready_made(folder: Path, client: Client) -> OneExchange:
    graph = TaskGraph()
    rows, few = fed(graph), graph.source("few", NUMBERS)
    joined = graph.join("joined", rows, few.map(renamed), "k", channels=2)
    summed = graph.aggregate("summed", joined, "w", {"v": ("sum", "v"), "n": "count"}, channels=3)
    first = graph.top("first", summed, 100, ["v", "w"], descending="v", channels=2)
    distinct = graph.distinct("distinct", rows, "k", channels=2)
    statement = "SELECT w, k, v FROM first JOIN (SELECT k, count FROM ks, counted) ON w % count = k"
    streams = {"first": first, "ks": distinct, "counted": graph.count("counted", distinct, channels=1)}
    graph.collect(graph.sort("sorted", graph.sql("all", statement, streams), ["v", "w", "k"], channels=2))
    return graph, {"numbers": FEW, "few": FEW.slice(0, 60)}


def inputs(folder: Path, client: Client) -> OneExchange:
    """Files, Datasets, and all kinds of iterables."""
    pq.write_table(numbers(1_000), folder / "a.parquet", row_group_size=300)
    pyarrow.csv.write_csv(numbers(500), folder / "a.csv")
    graph = TaskGraph()
    endless = graph.read_iterable(endless_pairs, NUMBERS, name="endless", stride=100)
    together = graph.union(
        graph.read_parquet(folder / "a.parquet", schema=NUMBERS),
        graph.read_csv(folder / "a.csv", NUMBERS),
        graph.read_arrow(numbers(300), stride=70),
        graph.read_iterable([{"k": 1, "v": 2}, {"k": 3}], NUMBERS, name="pairs"),
        graph.read_iterable(endless_pairs(), NUMBERS, name="in turn", epoch_rows=250),
        graph.node("first", First, endless),
    )
    hashed = client.dataset(numbers(200_000), keyed=tidegate.Hashed(("k",), 2))
    streams = {
        "parted": graph.read_dataset(hashed),
        "share": graph.read_dataset(client.dataset(numbers(900_000))),
        "all": graph.read_dataset(client.dataset(FEW), stride=1_000),
        "rows": together,
    }
    partition = {"parted": "k", "share": tidegate.SPREAD, "all": None, "rows": "k"}
    graph.blocking("calls", Calls, streams, schema=CALLS, channels=2, partition=partition)
    return graph, {}


GRAPHS: Mapping[str, Callable[[Path, Client], OneExchange]] = {
    "partitioned": partitioned,
    "ready made": ready_made,
    "inputs": inputs,
}


def outcome(client: Client, name: str, folder: Path, **options: object) -> tuple[list[str], list[tuple[object, ...]]]:
    """The digests of two epochs, and what each node and channel has counted."""
    graph, splits = GRAPHS[name](folder, client)
    with client.create_task(graph, **options) as task:
        tables = [task.run_epoch(splits).table() for _ in range(2)]
        counted = sorted(
            (operator.operator, operator.place, operator.channel, operator.rows_in, operator.rows_out, operator.runs)
            for operator in task.statistics().operators
            if operator.operator != "Stage"
        )
    return [digest(table.schema, table.to_batches()) for table in tables], counted


__all__ = ["FEW", "GRAPHS", "ROWS", "PassOn", "endless_pairs", "outcome"]
