"""Mistakes in graphs: they are reported before the graph runs, with the node's name and what would be right."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.proto.graph import ExecutorNode, FedSource, Graph, Input

from .executors import NUMBERS, SUMS, HashJoin, PassOn, SumByKey, fed

TEXTS = pa.schema([("k", pa.string())])


def a_circle(graph: TaskGraph) -> None:
    first = graph.node("first", PassOn, "second", schema=NUMBERS)
    graph.node("second", PassOn, first)
    graph.collect(fed(graph))


def two_of_a_name(graph: TaskGraph) -> None:
    graph.node("twice", PassOn, fed(graph))
    graph.blocking("twice", PassOn, "twice")


def a_node_that_is_not_there(graph: TaskGraph) -> None:
    fed(graph)
    graph.blocking("end", PassOn, "nmbers")


def no_end(graph: TaskGraph) -> None:
    graph.node("node", PassOn, fed(graph))


def a_node_that_nobody_reads(graph: TaskGraph) -> None:
    graph.node("idle", PassOn, fed(graph))
    graph.blocking("end", PassOn, "numbers")


def an_end_that_is_read(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, "more", schema=NUMBERS)
    graph.node("more", PassOn, "end")


def a_key_that_is_not_there(graph: TaskGraph) -> None:
    graph.blocking("sum", SumByKey, fed(graph), partition="key", channels=2, schema=SUMS)


def a_key_that_cannot_be_hashed(graph: TaskGraph) -> None:
    maps = graph.source("maps", pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))
    graph.blocking("end", PassOn, maps, partition="m", channels=2)


def keys_of_other_types(graph: TaskGraph) -> None:
    streams = {"build": fed(graph), "probe": graph.source("texts", TEXTS)}
    graph.blocking("join", HashJoin, streams, partition="k", channels=2, schema=HashJoin.schema)


def a_union_of_different_rows(graph: TaskGraph) -> None:
    graph.collect(graph.union(fed(graph), graph.source("texts", TEXTS), name="both"))


def an_executor_that_is_none_yet(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn(), fed(graph))  # type: ignore[arg-type]


def streams_that_wait_for_each_other(graph: TaskGraph) -> None:
    streams = {"a": fed(graph, "one"), "b": fed(graph, "two")}
    graph.blocking("end", PassOn, streams, after={"a": "b", "b": "a"}, schema=NUMBERS)


def a_stream_after_one_that_is_not_there(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, {"a": fed(graph)}, after={"a": "b"})


def several_streams_and_no_schema(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, {"a": fed(graph, "one"), "b": fed(graph, "two")})


def no_streams(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, {}, schema=NUMBERS)


def too_many_channels(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, fed(graph), channels=65, partition="k")


def a_function_that_cannot_do_without_rows(graph: TaskGraph) -> None:
    graph.collect(fed(graph).map(lambda batch: batch["k"][0], name="first"))


def a_stride_of_nothing(graph: TaskGraph) -> None:
    graph.collect(graph.source("numbers", NUMBERS, stride=0))


def a_stride_that_is_no_number(graph: TaskGraph) -> None:
    graph.collect(graph.source("numbers", NUMBERS, stride="9"))  # type: ignore[arg-type]


def rows_of_an_epoch_that_are_no_whole_number(graph: TaskGraph) -> None:
    graph.collect(graph.read_iterable(iter([]), NUMBERS, name="numbers", epoch_rows=1.5))  # type: ignore[arg-type]


def channels_that_are_no_whole_number(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, fed(graph), channels=2.0, partition="k")  # type: ignore[arg-type]


def a_schema_that_is_none(graph: TaskGraph) -> None:
    graph.collect(graph.source("numbers", {"k": "int64"}))  # type: ignore[arg-type]


def a_nodes_schema_that_is_none(graph: TaskGraph) -> None:
    graph.blocking("end", PassOn, fed(graph), schema=["k", "v"])  # type: ignore[arg-type]


def a_function_that_gives_nothing(graph: TaskGraph) -> None:
    graph.collect(fed(graph).map(lambda batch: None, name="first"))


def no_columns(graph: TaskGraph) -> None:
    rows = graph.source("nothing", pa.schema([]))
    graph.collect(graph.sql("counted", "SELECT count(*) AS n FROM rows", {"rows": rows}))


WRONG: list[tuple[Callable[[TaskGraph], None], str, str]] = [
    (a_circle, "CIRCLE", r"^node '(first|second)': '\w+' reads '\w+' reads '\w+': a graph cannot have circles"),
    (two_of_a_name, "DUPLICATE_NAME", r"^node 'twice': two nodes have this name"),
    (
        a_node_that_is_not_there,
        "UNKNOWN_NODE",
        r"^node 'end': the node reads 'nmbers', and there is no node 'nmbers'; there are: numbers$",
    ),
    (no_end, "NO_RESULT", r"^graph: the graph has no result: end the graph with blocking"),
    (a_node_that_nobody_reads, "UNREAD", r"^node 'idle': nothing reads this node"),
    (an_end_that_is_read, "CIRCLE", r"'end' reads 'more' reads 'end'|'more' reads 'end' reads 'more'"),
    (a_key_that_is_not_there, "UNKNOWN_COLUMN", r"^node 'sum': stream 'rows' .* no column 'key'; there are: k, v$"),
    (a_key_that_cannot_be_hashed, "UNSUPPORTED_TYPE", r"^node 'end': stream 'rows' .* map<string, int64> cannot be a"),
    (keys_of_other_types, "KEY_TYPES", r"^node 'join': streams 'build' \(whole numbers\) and 'probe' \(string\)"),
    (
        a_union_of_different_rows,
        "SCHEMA_MISMATCH",
        r"^node 'both': the streams of the union have different schemas, 'numbers' \(k: int64, v: int64\) and 'texts'",
    ),
    (an_executor_that_is_none_yet, "NOT_A_FACTORY", r"^node 'end': .* is an executor itself; give its class"),
    (
        streams_that_wait_for_each_other,
        "CIRCLE",
        r"^node 'end': its streams wait for each other \((a after b|b after a)",
    ),
    (a_stream_after_one_that_is_not_there, "UNKNOWN_STREAM", r"^node 'end': stream 'a' comes after 'b', .* are: a$"),
    (several_streams_and_no_schema, "NO_SCHEMA", r"^node 'end': the node has several streams: give the schema"),
    (no_streams, "NO_STREAMS", r"^node 'end': the node reads nothing"),
    (too_many_channels, "BAD_CHANNELS", r"^node 'end': channels=65 must be a whole number from 1 to 64"),
    (channels_that_are_no_whole_number, "BAD_CHANNELS", r"^node 'end': channels=2.0 must be a whole number"),
    (a_schema_that_is_none, "NO_SCHEMA", r"^node 'numbers': its schema must be a pyarrow.Schema, not dict"),
    (a_nodes_schema_that_is_none, "NO_SCHEMA", r"^node 'end': its schema must be a pyarrow.Schema, not list"),
    (a_function_that_gives_nothing, "BAD_FUNCTION", r"^node 'first': its function gave NoneType, which has no rows"),
    (a_function_that_cannot_do_without_rows, "BAD_FUNCTION", r"^node 'first': its function raised IndexError"),
    (a_stride_of_nothing, "BAD_STRIDE", r"^node 'numbers': stride=0"),
    (a_stride_that_is_no_number, "BAD_STRIDE", r"^node 'numbers': stride='9' must be a whole number"),
    (rows_of_an_epoch_that_are_no_whole_number, "BAD_STRIDE", r"^node 'numbers': epoch_rows=1.5 must be a whole"),
    (no_columns, "NO_COLUMNS", r"^node 'counted': stream 'rows' has no columns, and SQL has no tables without columns"),
]


@pytest.mark.parametrize(("wrong", "reason", "said"), WRONG, ids=[case[0].__name__ for case in WRONG])
def test_a_wrong_graph_is_refused_before_it_runs(
    client: Client, wrong: Callable[[TaskGraph], None], reason: str, said: str
) -> None:
    graph = TaskGraph()
    wrong(graph)
    for run in (client.run_graph, client.create_task, client.explain):
        with pytest.raises(tidegate.PlanError, match=said) as raised:
            run(graph)
        assert raised.value.reason == reason


def test_all_that_is_wrong_is_told_at_once(client: Client) -> None:
    graph = TaskGraph()
    rows = graph.node("a", PassOn, fed(graph), partition="x", channels=2)
    graph.blocking("b", PassOn, rows, partition="y", channels=2)
    with pytest.raises(tidegate.PlanError) as raised:
        client.run_graph(graph)
    assert [problem.place for problem in raised.value.problems] == ["node 'a'", "node 'b'"]


def test_a_graph_made_by_hand_is_checked_as_well(client: Client) -> None:
    source = FedSource(name="numbers", schema=NUMBERS)
    node = ExecutorNode(name="node", inputs=(Input(name="rows", source="numbers"),), make=PassOn)
    assert client.run_graph(Graph(nodes=(node, source), result="node"), {"numbers": []}).rows == 0
    with pytest.raises(tidegate.PlanError, match="there is no node 'other' for the graph's result"):
        client.run_graph(Graph(nodes=(node, source), result="other"))


def test_what_can_be_refused_at_once_is() -> None:
    graph, other = TaskGraph(), TaskGraph()
    stream = fed(graph)
    wrong: dict[str, Callable[[], object]] = {
        "OTHER_GRAPH": lambda: other.node("node", PassOn, stream),
        "PARTITION_MISSING": lambda: graph.node("node", PassOn, stream, channels=2),
        "NOT_A_PARTITION": lambda: graph.node("node", PassOn, stream, channels=2, partition=5),  # type: ignore[arg-type]
        "UNKNOWN_STREAM": lambda: graph.node("node", PassOn, stream, partition={"row": "k"}),
        "NOT_A_STREAM": lambda: graph.node("node", PassOn, 5),  # type: ignore[arg-type]
        "NODE_NAME": lambda: graph.node("", PassOn, stream),
        "NOT_A_DATASET": lambda: graph.read_dataset(5),  # type: ignore[arg-type]
        "NOT_AN_ITERABLE": lambda: graph.read_iterable(5, NUMBERS),  # type: ignore[arg-type]
    }
    for reason, build in wrong.items():
        with pytest.raises(tidegate.InvalidRequest) as raised:
            build()
        assert raised.value.reason == reason
    graph.collect(stream)
    with pytest.raises(tidegate.InvalidRequest, match="already ends in 'numbers'"):
        graph.collect(stream)


@pytest.mark.parametrize(
    "options", [{"mode": "continuous"}, {"channels": 2}, {"tables": {}}, {"restore": "a/b"}], ids=str
)
def test_a_graph_has_no_use_for_some_options(client: Client, options: dict[str, object]) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    with pytest.raises(tidegate.InvalidRequest) as raised:
        client.create_task(graph, **options)  # type: ignore[arg-type]
    assert raised.value.reason == "GRAPH_OPTION"


def test_a_server_runs_no_graph() -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    with tidegate.connect("localhost:1") as client:
        for run in (client.run_graph, client.create_task, client.explain):
            with pytest.raises(tidegate.Refused, match=r"is not sent to a server; run the graph with tidegate\.local"):
                run(graph)
