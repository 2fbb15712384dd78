"""Names of columns, and their values: columns differ by name, and values stay whole however texts are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.graph import Stream

from .executors import PassOn

TWICE = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["k", "k"])
ALIKE = TWICE.rename_columns(["k", "K"])
NUMBERS = TWICE.rename_columns(["k", "v"])
VIEWS = pa.table(
    {
        "k": pa.array(["a", None, "b", "a"], pa.string_view()),
        "l": pa.array([["x"], None, [None], []], pa.list_(pa.string_view())),
        "s": pa.array([{"t": "x"}, None, {"t": None}, {"t": "y"}], pa.struct([("t", pa.string_view())])),
        "r": pa.array([1, 1, 2, 2]),
    }
).set_column(3, "r", pa.RunEndEncodedArray.from_arrays([2, 4], [1, 2]))
TEXTS = pa.schema(
    [
        ("k", pa.string()),
        ("l", pa.list_(pa.string())),
        ("s", pa.struct([("t", pa.string())])),
        ("r", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda g: g.sql("node", "SELECT k, k FROM n", {"n": g.read_arrow(NUMBERS)}), "its rows have two columns 'k'"),
        (lambda g: g.sql("node", "SELECT k, v AS K FROM n", {"n": g.read_arrow(NUMBERS)}), "'k' and 'K'"),
        (lambda g: g.sql("node", "FROM n a JOIN n b USING (k)", {"n": g.read_arrow(NUMBERS)}), "two columns 'v'"),
        (lambda g: g.sql("node", "SELECT 1 AS x FROM n", {"n": g.read_arrow(TWICE)}), "stream 'n' has two columns 'k'"),
        (lambda g: g.aggregate("node", g.read_arrow(ALIKE), "k", {"s": ("sum", "K")}), "stream 'rows' has"),
        (lambda g: g.aggregate("node", g.read_arrow(NUMBERS), "k", {"K": ("sum", "v")}), "'k' and 'K'"),
        (lambda g: g.distinct("node", g.read_arrow(NUMBERS), ["k", "k"]), "two columns 'k'"),
        (
            lambda g: g.join("node", g.read_arrow(NUMBERS), g.read_arrow(NUMBERS.rename_columns(["k", "V"])), on="k"),
            "'v' and 'V'",
        ),
        (lambda g: g.source("node", TWICE.schema), "read by name"),
    ],
)
def test_columns_that_sql_cannot_tell_apart_are_refused(
    build: Callable[[TaskGraph], Stream], words: str, client: Client
) -> None:
    graph = TaskGraph()
    graph.collect(build(graph))
    with pytest.raises(tidegate.PlanError) as raised:
        client.explain(graph)
    assert [problem.reason for problem in raised.value.problems] == ["DUPLICATE_COLUMN"]
    assert words in str(raised.value)


def test_a_dataset_with_two_columns_of_a_name_is_no_input(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(graph.read_dataset(client.dataset(TWICE), name="twice"))
    with pytest.raises(tidegate.PlanError, match="node 'twice': several of its columns are called 'k'"):
        client.run_graph(graph)


@pytest.mark.parametrize(
    "build",
    [
        lambda g, rows: g.node("node", PassOn, rows, partition="k", channels=2),
        lambda g, rows: g.node("node", PassOn, rows, partition=lambda batch, n: [0] * len(batch), channels=2),
        lambda g, rows: g.sort("node", rows, "k", channels=2),
        lambda g, rows: g.union(rows, rows.map(lambda batch: batch)),
    ],
)
def test_views_of_texts_and_run_ends_go_through_exchanges_as_plain_values(
    build: Callable[[TaskGraph, Stream], Stream], client: Client
) -> None:
    graph = TaskGraph()
    graph.collect(build(graph, graph.read_arrow(VIEWS)))
    result = client.run_graph(graph).table()
    assert result.schema.types == TEXTS.types
    kept = sorted(map(repr, result.slice(0, 4).to_pylist()))
    assert kept == sorted(map(repr, VIEWS.to_pylist()))


class Views(PassOn):
    """Gives texts as some libraries keep them."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        batches_ = VIEWS.combine_chunks().to_batches()
        return batches_ if batches else ()


def test_what_an_executor_gives_may_keep_its_texts_in_another_way(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("node", Views, graph.read_arrow(NUMBERS), schema=TEXTS)
    assert client.run_graph(graph).table().to_pylist() == VIEWS.to_pylist()


@pytest.mark.parametrize("channels", [1, 2])
def test_a_statement_that_fails_is_told_with_node_channel_and_epoch(client: Client, channels: int) -> None:
    graph = TaskGraph()
    rows = graph.source("numbers", NUMBERS.schema)
    statement = "SELECT CAST('x' || v AS BIGINT) AS n FROM numbers"
    graph.collect(graph.sql("cast", statement, {"numbers": rows}, channels=channels, partition="k"))
    with client.create_task(graph) as task:
        assert task.run_epoch({}).rows == 0
        with pytest.raises(tidegate.TaskFailed, match=r"node 'cast', channel [01], epoch 2: Could not convert string"):
            task.run_epoch({"numbers": NUMBERS})
