"""Graphs on Spark: the rows, their order, the counts and the errors are those of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.graph.executors import CALLS, NUMBERS, Calls, First, PassOn, fed, numbers
from tests.house.test_examples import names_of
from tidegate import Client, TaskGraph

from .graphs import FEW, GRAPHS, endless_pairs, outcome


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_has_the_local_rows_in_the_local_order_and_counts_alike(
    name: str, client: Client, spark: SparkSession, tmp_path: Path
) -> None:
    """Of each node and channel."""
    assert outcome(client, name, tmp_path, executor="spark", spark=spark) == outcome(client, name, tmp_path)


# ------------------------------------------------------------------------------------------------------------ errors


class RaisesAt(PassOn):
    """Raises what it is given for this value."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        if 4_000 in batches[0]["v"].to_pylist():
            raise LookupError(stream, 4_000)
        return batches


def in_an_executor(graph: TaskGraph) -> None:
    bad = graph.node("bad", RaisesAt, {"in": fed(graph)}, channels=2, partition="k", schema=NUMBERS)
    graph.blocking("end", PassOn, bad)


def in_a_statement(graph: TaskGraph) -> None:
    graph.collect(
        graph.sql("bad", "SELECT ('x' || v)::BIGINT AS n FROM numbers WHERE v = 4000", {"numbers": fed(graph)})
    )


def in_a_partition(graph: TaskGraph) -> None:
    graph.blocking(
        "bad", PassOn, fed(graph), channels=2, partition=lambda batch, channels: batch["v"].to_numpy() // 4000 * 2
    )


def in_a_function(graph: TaskGraph) -> None:
    graph.collect(fed(graph).map(lambda batch: {}[batch.num_rows] if batch.num_rows > 4000 else batch, name="bad"))


@pytest.mark.parametrize("build", [in_an_executor, in_a_statement, in_a_partition, in_a_function])
def test_an_error_has_node_channel_epoch_and_the_user_s_own_traceback(
    build: Callable[[TaskGraph], None], client: Client, spark: SparkSession
) -> None:
    """And what was raised, as here."""
    raised = []
    for options in ({}, {"executor": "spark", "spark": spark}):
        graph = TaskGraph()
        build(graph)
        with client.create_task(graph, **options) as task:
            task.run_epoch({"numbers": FEW.slice(0, 4_000)})
            with pytest.raises(tidegate.TaskFailed) as failed:
                task.run_epoch({"numbers": FEW})
        error = failed.value.__cause__
        assert isinstance(error, tidegate.NodeError)
        raised.append((str(error), error.node, error.channel, error.epoch, error.reason, repr(error.__cause__)))
    assert raised[0] == raised[1]
    assert raised[0][1:4] == ("bad", raised[0][2], 2)


def test_an_epoch_that_failed_is_void_and_the_next_one_runs(client: Client, spark: SparkSession) -> None:
    graph = TaskGraph()
    in_an_executor(graph)
    with client.create_task(graph, executor="spark", spark=spark, on_error="skip_epoch") as task:
        with pytest.raises(tidegate.EpochError):
            task.run_epoch({"numbers": FEW})
        assert task.run_epoch({"numbers": numbers(9)}).table().num_rows == 9


def test_code_that_cannot_travel_is_refused_with_its_node_before_anything_runs(client: Client) -> None:
    lock = threading.Lock()
    graph = TaskGraph()
    graph.blocking(
        "kept", lambda: PassOn() if lock else None, graph.read_iterable(lambda: [lock], NUMBERS, name="rows")
    )
    for refuse in (client.create_task, client.explain):
        with pytest.raises(tidegate.PlanError) as refused:
            refuse(graph, executor="spark", spark="local[1]")
        assert {(problem.place, problem.reason) for problem in refused.value.problems} == {
            ("node 'kept'", "NOT_ON_SPARK"),
            ("node 'rows'", "NOT_ON_SPARK"),
        }
        assert "lock" in str(refused.value)


@pytest.mark.parametrize("items", [endless_pairs, endless_pairs()], ids=["made there", "read here"])
def test_an_endless_iterable_that_nothing_ends_there_is_an_error_with_its_node(
    items: object, client: Client, spark: SparkSession
) -> None:
    """What its reader has enough of is behind an exchange, or the iterable is read beforehand."""
    graph = TaskGraph()
    rows = graph.read_iterable(items, NUMBERS, name="endless")
    graph.blocking("first", First, graph.node("same", PassOn, rows, channels=2, partition="k"))
    with pytest.raises(
        tidegate.TaskFailed, match="node 'endless', channel 0, epoch 1: its iterable gave more"
    ) as failed:
        client.run_graph(graph, executor="spark", spark=spark, spill_quota=4 << 20)
    assert failed.value.reason == "SPILL_QUOTA"


# ---------------------------------------------------------------------------------------------------------- Datasets


@pytest.mark.parametrize("keyed", [None, tidegate.Hashed(("k",), 3), tidegate.Ranged("v")], ids=str)
def test_a_graph_ends_in_a_dataset_that_outlives_it(
    keyed: tidegate.Hashed | tidegate.Ranged | None, spark: SparkSession, tmp_path: Path
) -> None:
    graph = TaskGraph()
    graph.blocking("kept", PassOn, fed(graph), channels=3, partition="k")
    with tidegate.local(spark_staging=tmp_path) as client:
        here = client.run_graph(graph, {"numbers": FEW}, keyed=keyed)
        there = client.run_graph(graph, {"numbers": FEW}, keyed=keyed, executor="spark", spark=spark)
    assert there.table() == here.table()
    assert there.rows == here.rows
    if isinstance(there, tidegate.KeyedDataset) and isinstance(here, tidegate.KeyedDataset):
        assert there.lookup(3) == here.lookup(3)
    there.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_closed_stays_for_the_task_that_reads_it(client: Client, spark: SparkSession) -> None:
    first, second = TaskGraph(), TaskGraph()
    first.blocking("kept", PassOn, fed(first))
    dataset = client.run_graph(first, {"numbers": FEW}, executor="spark", spark=spark)
    second.blocking("again", PassOn, second.read_dataset(dataset))
    with client.create_task(second, executor="spark", spark=spark) as task:
        dataset.close()
        assert [task.run_epoch({}).table() for _ in range(2)] == [FEW, FEW]


def test_an_epoch_that_fails_leaves_no_dataset(spark: SparkSession, tmp_path: Path) -> None:
    graph = TaskGraph()
    in_an_executor(graph)
    with tidegate.local(spark_staging=tmp_path) as client, pytest.raises(tidegate.TaskFailed):
        client.run_graph(graph, {"numbers": FEW}, executor="spark", spark=spark)
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------------------------------- told


def test_explain_says_what_is_a_stage_and_where_iterables_are_read(client: Client) -> None:
    graph = TaskGraph()
    streams = {
        "here": graph.read_iterable([(1, 2)], NUMBERS, name="pairs"),
        "there": graph.read_iterable(endless_pairs, NUMBERS, name="endless"),
    }
    graph.blocking("calls", Calls, streams, schema=CALLS, channels=2, partition="k")
    text = client.explain(graph, executor="spark").text
    assert "on Spark an epoch is a job of 2 stages, 4 tasks:" in text
    assert "stage 1: pipeline 1, pipeline 2 (ended by pairs, endless), 2 tasks, to pipeline 3" in text
    assert "pairs: an iterable that the service reads and writes to a file" in text
    assert "endless: an iterable that a Spark task makes" in text
    assert "Spark" not in client.explain(graph).text


def test_progress_is_that_of_the_whole_epoch(client: Client, spark: SparkSession) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    seen: list[tidegate.GraphProgress] = []
    client.run_graph(graph, {"numbers": FEW}, progress=seen.append, executor="spark", spark=spark).close()
    assert (seen[-1].rows, seen[-1].share) == (FEW.num_rows, 1.0)


# ---------------------------------------------------------------------------------------------------------- examples


def test_the_words_of_files_are_counted_where_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("to be or not\n")
    (tmp_path / "b.txt").write_text("to be\n")
    table = names_of("word_count")["word_count"](tmp_path, executor="spark", spark=spark).table()
    assert dict(zip(*table.to_pydict().values(), strict=True)) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_tpc_h_as_graphs(client: Client, spark: SparkSession, files: dict[str, Path]) -> None:
    names = names_of("tpch_graphs")
    for query in ("query_6", "query_12"):
        graph = names[query](files["lineitem"].parent)
        there = client.run_graph(graph, executor="spark", spark=spark)
        assert there.table() == client.run_graph(graph).table()
