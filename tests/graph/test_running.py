"""Graphs among other tasks: deep, endless, cancelled, spilling."""

from __future__ import annotations

import itertools
import threading

import pytest

import tidegate
from tidegate import Client, TaskGraph

from .executors import NUMBERS, SUMS, First, HashJoin, PassOn, SumByKey, fed, numbers


def test_a_chain_of_many_nodes_runs_in_several_pipelines(client: Client) -> None:
    graph = TaskGraph()
    stream = fed(graph)
    for node in range(100):
        stream = graph.node(f"node{node}", PassOn, stream)
    graph.collect(stream)
    assert client.run_graph(graph, {"numbers": numbers(1000)}).table() == numbers(1000)
    assert client.explain(graph).text.startswith("101 nodes in 4 pipelines")


@pytest.mark.parametrize("channels", [1, 3])
def test_cancelling_ends_a_graph_that_would_never_end(channels: int) -> None:
    begun = threading.Event()

    def endless() -> object:
        for number in itertools.count():
            if number == 1000:
                begun.set()
            yield (number % 7, number)

    graph = TaskGraph()
    rows = graph.read_iterable(endless, NUMBERS, stride=100)
    graph.blocking("sum", SumByKey, rows, channels=channels, partition="k", schema=SUMS)
    with tidegate.local() as client:
        task = client.create_task(graph, queue_bytes=1 << 20)
        task.request_barrier()
        assert begun.wait(60)
        task.cancel()
        with pytest.raises(tidegate.TaskCancelled):
            task.read_epoch()


def test_rows_that_wait_between_nodes_spill(client: Client) -> None:
    graph = TaskGraph()
    rows = graph.node("rows", PassOn, fed(graph))
    total = graph.node("total", SumByKey, rows, schema=SUMS)
    build = total.map(lambda batch: batch.rename_columns(["k", "v"]))
    graph.blocking("join", HashJoin, {"build": build, "probe": rows}, after={"probe": "build"}, schema=HashJoin.schema)
    with client.create_task(graph, queue_bytes=1 << 20) as task:
        assert task.run_epoch({"numbers": numbers(300_000)}).rows == 300_000
        assert sum(operator.spilled_bytes for operator in task.statistics().operators) > 0


def test_an_epoch_that_moves_more_than_it_may_fails_by_name(client: Client) -> None:
    rows = ((number % 7, number) for number in range(1_000_000))
    graph = TaskGraph()
    graph.blocking("sum", SumByKey, graph.read_iterable(rows, NUMBERS), channels=2, partition="k", schema=SUMS)
    with client.create_task(graph, queue_bytes=1 << 16, spill_quota=1 << 20) as task:
        with pytest.raises(tidegate.TaskFailed) as raised:
            task.run_epoch({})
        assert raised.value.reason == "SPILL_QUOTA"


def test_epochs_go_on_after_one_that_was_ended_early(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("first", First, graph.node("rows", PassOn, fed(graph), channels=2, partition="k"))
    with client.create_task(graph) as task:
        assert [task.run_epoch({"numbers": numbers(200_000)}).rows for _ in range(3)] == [3, 3, 3]
