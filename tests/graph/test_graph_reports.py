"""Reports about a graph: its pipelines, its counters, and whether a node keeps the rules of operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.testing import check_operator

from .executors import CALLS, NUMBERS, SUMS, Calls, First, HashJoin, PassOn, SumByKey, fed, numbers, sums


def join_graph(channels: int = 2) -> TaskGraph:
    graph = TaskGraph()
    streams = {"build": fed(graph, "left"), "probe": fed(graph, "right").map(lambda batch: batch, name="same")}
    joined = graph.node(
        "join", HashJoin, streams, channels=channels, partition="k", after={"probe": "build"}, schema=HashJoin.schema
    )
    graph.blocking("end", PassOn, joined, partition=None)
    return graph


def test_explain_shows_nodes_in_their_pipelines_and_the_exchanges_between(client: Client) -> None:
    assert client.explain(join_graph()).text.splitlines() == [
        "5 nodes in 4 pipelines, result end",
        "pipeline 1: 2 channels",
        "  left: splits that the task is fed, ends the pipeline -> (k: int64, v: int64)",
        "pipeline 2: 2 channels",
        "  right: splits that the task is fed -> (k: int64, v: int64)",
        "  same: function <lambda>, ends the pipeline -> (k: int64, v: int64)",
        "    right: from right, spread, in the same pipeline",
        "pipeline 3: 2 channels",
        "  join: executor HashJoin, ends the pipeline -> (k: int64, v: int64, w: int64)",
        "    build: from left, by k, exchange 1",
        "    probe: from same, by k, exchange 2, after build",
        "pipeline 4: 1 channel",
        "  end: executor PassOn, ends the pipeline -> (k: int64, v: int64, w: int64)",
        "    rows: from join, broadcast, exchange 3",
    ]


def test_explain_is_there_for_programs_too() -> None:
    document = json.loads(join_graph(channels=1).explain().json)
    assert document["pipelines"] == 1
    assert [node["name"] for node in document["nodes"] if node["ends_pipeline"]] == ["end"]
    assert join_graph().explain().svg.count("ends the pipeline</text>") == 4
    assert {node["name"]: node["channels"] for node in document["nodes"]} == dict.fromkeys(
        ("left", "right", "same", "join", "end"), 1
    )


def test_statistics_are_told_of_each_node_and_channel(client: Client) -> None:
    with client.create_task(join_graph()) as task:
        rows = task.run_epoch({"left": numbers(7), "right": numbers(100)}).rows
        by_node = {
            (operator.operator, operator.place, operator.channel): operator for operator in task.statistics().operators
        }
    joins = [by_node["User", "join", channel] for channel in (0, 1)]
    assert [sum(getattr(join, name) for join in joins) for name in ("rows_in", "rows_out")] == [107, rows]
    assert sum(by_node["Exchange", "join.build", channel].rows_out for channel in (0, 1)) == 7
    assert by_node["User", "end", 0].rows_in == rows == 100


def test_a_checkpoint_of_a_graph_is_refused_as_such(tmp_path: Path) -> None:
    graph = TaskGraph()
    graph.blocking("end", PassOn, fed(graph))
    service = tidegate.local(checkpoint_root=tmp_path)
    with service, service.create_task(graph) as task, pytest.raises(tidegate.InvalidRequest) as refused:
        task.request_barrier(checkpoint=True)
    assert refused.value.reason == "GRAPH_OPTION"
    assert "a graph takes no checkpoints" in refused.value.message


def test_what_went_into_an_exchange_is_told_of_the_channel_that_gave_it(client: Client) -> None:
    graph = TaskGraph()
    parted = graph.node("parted", PassOn, fed(graph), channels=2, partition="k")
    graph.blocking("end", PassOn, parted)
    with client.create_task(graph) as task:
        task.run_epoch({"numbers": numbers(100)})
        by_node = {
            (operator.operator, operator.place, operator.channel): operator for operator in task.statistics().operators
        }
    sent = [by_node["User", "parted", channel].rows_out for channel in (0, 1)]
    assert [by_node["Exchange", "end.rows", channel].rows_in for channel in (0, 1)] == sent
    assert min(sent) > 0
    assert by_node["Exchange", "end.rows", 0].rows_out == sum(sent) == 100


JOIN_EPOCHS = [[numbers(6, keys=3), numbers(9, keys=4)], [numbers(4, keys=2), numbers(5, keys=3)]]
SUM_EPOCHS = [[numbers(12, keys=3)], [numbers(5, keys=2)]]


def test_nodes_that_keep_the_rules_pass_the_checks_of_operators() -> None:
    graph = TaskGraph()
    total = graph.node("total", SumByKey, fed(graph), schema=SUMS)
    check_operator(total, SUM_EPOCHS, expected=[sums(table) for [table] in SUM_EPOCHS], ordered=True)
    streams = {"build": fed(graph, "left"), "probe": fed(graph, "right")}
    check_operator(graph.node("join", HashJoin, streams, after={"probe": "build"}, schema=HashJoin.schema), JOIN_EPOCHS)
    check_operator(graph.node("first", First, fed(graph, "more")), SUM_EPOCHS, ordered=True)
    check_operator(fed(graph, "mapped").map(lambda batch: batch.select(["v"])), SUM_EPOCHS, ordered=True)


class FirstOfEachBatch(PassOn):
    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
        return batches[0].slice(0, 1)


def test_a_node_that_depends_on_how_batches_are_cut_is_caught() -> None:
    node = TaskGraph().node("sample", FirstOfEachBatch, "numbers", schema=NUMBERS)
    with pytest.raises(
        AssertionError, match="node 'sample' breaks the rule 'gives_the_same_rows_however_its_input_is_cut'"
    ):
        check_operator(node, SUM_EPOCHS)


def test_a_join_that_does_not_wait_for_its_build_side_is_caught() -> None:
    node = TaskGraph().node("join", HashJoin, {"build": "left", "probe": "right"}, schema=HashJoin.schema)
    with pytest.raises(AssertionError, match=r"node 'join' breaks the rule .*(interleave|cut)"):
        check_operator(node, JOIN_EPOCHS)


def test_a_node_that_keeps_rows_across_a_barrier_behind_its_executors_back_is_caught() -> None:
    shared: list[pa.RecordBatch] = []

    class Keeps(Calls):
        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
            shared.extend(batches)
            self.rows.append((stream, sum(batch.num_rows for batch in shared), channel, 0))

    node = TaskGraph().node("keeps", Keeps, "numbers", schema=CALLS)
    with pytest.raises(AssertionError, match="node 'keeps' breaks the rule"):
        check_operator(node, SUM_EPOCHS)


def test_a_node_without_code_of_the_users_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="node 'numbers' runs no user code"):
        check_operator(fed(TaskGraph()), SUM_EPOCHS)


def test_the_classes_of_graphs_are_named_at_the_top() -> None:
    assert {"TaskGraph", "Dataset", "Executor", "NodeError", "SPREAD"} <= set(tidegate.__all__)
