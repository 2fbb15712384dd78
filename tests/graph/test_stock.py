"""Nodes that come with Tidegate give what DuckDB's SQL gives, on any number of channels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.executor.api.checked_options import SMALLEST_MEMORY
from tidegate.graph import Stream
from tidegate.operators.arrays.digest import digest

from ..duckdb_oracle import oracle
from ..searching import one_of_each
from .executors import NUMBERS, fed, numbers

PRICES = pa.schema([("k", pa.int64()), ("price", pa.float64()), ("name", pa.string())])

Build = Callable[[TaskGraph, int], Stream]


def prices(rows: int = 3_000) -> pa.Table:
    """Keys that no number has, a null now and then, and rows that are there twice."""
    at = range(rows)
    keys = [None if number % 97 == 0 else number % 11 for number in at]
    return pa.table(
        {"k": keys, "price": [number % 50 / 4 for number in at], "name": [f"n{number % 5}" for number in at]}, PRICES
    )


def two(graph: TaskGraph) -> tuple[Stream, Stream]:
    return fed(graph), graph.source("prices", PRICES)


def an_inner_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph), on="k", channels=channels)


def a_left_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph)[::-1], on="k", how="left", channels=channels)


def a_right_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph), on="k", how="right", channels=channels)


def a_full_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph), on="k", how="full", channels=channels)


def a_semi_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph)[::-1], on="k", how="semi", channels=channels)


def an_anti_join(graph: TaskGraph, channels: int) -> Stream:
    return graph.join("node", *two(graph)[::-1], on={"k": "v"}, how="anti", channels=channels)


def an_aggregate(graph: TaskGraph, channels: int) -> Stream:
    measures = {
        "rows": "count",
        "known": ("count", "k"),
        "kinds": ("count_distinct", "name"),
        "least": ("min", "price"),
        "most": ("max", "price"),
        "mean": ("mean", "price"),
    }
    return graph.aggregate("node", graph.source("prices", PRICES), "k", measures, channels=channels)


def a_sum(graph: TaskGraph, channels: int) -> Stream:
    return graph.aggregate("node", fed(graph), ["k"], {"total": ("sum", "v")}, channels=channels)


def distinct_rows(graph: TaskGraph, channels: int) -> Stream:
    return graph.distinct("node", graph.source("prices", PRICES), ["k", "name"], channels=channels)


def a_sort(graph: TaskGraph, channels: int) -> Stream:
    return graph.sort(
        "node", graph.source("prices", PRICES), ["k", "price", "name"], descending="price", channels=channels
    )


def the_first_rows(graph: TaskGraph, channels: int) -> Stream:
    rows = graph.source("prices", PRICES)
    return graph.top("node", rows, 7, ["price", "name", "k"], descending=True, channels=channels)


def a_count(graph: TaskGraph, channels: int) -> Stream:
    return graph.count("node", fed(graph), channels=channels)


ANSWERS: dict[Build, str] = {
    an_inner_join: "SELECT n.*, price, name FROM numbers n JOIN prices USING (k)",
    a_left_join: "SELECT p.*, v FROM prices p LEFT JOIN numbers n USING (k)",
    a_right_join: "SELECT p.k, v, price, name FROM numbers n RIGHT JOIN prices p USING (k)",
    a_full_join: "SELECT coalesce(n.k, p.k) AS k, v, price, name FROM numbers n FULL JOIN prices p ON n.k = p.k",
    a_semi_join: "SELECT * FROM prices WHERE k IN (SELECT k FROM numbers)",
    an_anti_join: "SELECT * FROM prices p WHERE NOT EXISTS (SELECT 1 FROM numbers WHERE v = p.k)",
    an_aggregate: """SELECT k, count(*) AS rows, count(k) AS known, count(DISTINCT name) AS kinds, min(price) AS least,
                     max(price) AS most, avg(price) AS mean FROM prices GROUP BY k""",
    a_sum: "SELECT k, sum(v)::BIGINT AS total FROM numbers GROUP BY k",
    distinct_rows: "SELECT DISTINCT k, name FROM prices",
    a_sort: "SELECT * FROM prices ORDER BY k NULLS LAST, price DESC, name",
    the_first_rows: "SELECT * FROM prices ORDER BY price DESC, name DESC, k DESC NULLS LAST LIMIT 7",
    a_count: "SELECT count(*) AS count FROM numbers",
}


def _named(value: object) -> str:
    return getattr(value, "__name__", str(value))


ORDERED = (a_sort, the_first_rows)
CASES = pytest.mark.parametrize("build", ANSWERS, ids=lambda build: build.__name__)


def splits(build: Build) -> dict[str, pa.Table]:
    graph = TaskGraph()
    build(graph, 1)
    few = "_join" in build.__name__  # their keys meet very many rows
    tables = {"numbers": numbers(600 if few else 2_000, keys=9), "prices": prices(120) if few else prices()}
    return {node.name: tables[node.name] for node in graph.value.nodes if node.name in tables}


def ended(build: Build, channels: int) -> TaskGraph:
    graph = TaskGraph()
    graph.collect(build(graph, channels))
    return graph


def answer(build: Build, tables: dict[str, pa.Table]) -> pa.Table:
    with oracle(tables) as connection:
        return connection.sql(ANSWERS[build]).to_arrow_table()


def in_order(table: pa.Table) -> list[tuple[object, ...]]:
    rows = zip(*table.to_pydict().values(), strict=True)
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


@pytest.mark.parametrize(("build", "channels"), one_of_each(product(ANSWERS, [1, 3])), ids=_named)
def test_it_gives_what_sql_gives(build: Build, channels: int, client: Client) -> None:
    tables = splits(build)
    result, expected = client.run_graph(ended(build, channels), tables).table(), answer(build, tables)
    assert result.schema.names == expected.schema.names
    assert result.schema.types == expected.schema.types
    assert in_order(result) == in_order(expected)
    if build in ORDERED:
        assert result.to_pylist() == expected.to_pylist()


@CASES
def test_every_epoch_begins_anew(build: Build, client: Client) -> None:
    tables = splits(build)
    few = {name: table.slice(0, 20) for name, table in tables.items()}
    with client.create_task(ended(build, 2)) as task:
        results = [task.run_epoch(epoch_input).table() for epoch_input in (tables, few, {}, tables)]
    assert results[0].equals(results[3])
    assert in_order(results[1]) == in_order(answer(build, few))
    assert results[2].num_rows == (build is a_count)


def in_pieces(table: pa.Table, rows: int) -> list[pa.Table]:
    return [table.slice(start, rows) for start in range(0, len(table), rows)]


@pytest.mark.parametrize(("build", "channels"), one_of_each(product(ANSWERS, [1, 3])), ids=_named)
def test_how_its_streams_arrive_does_not_show(build: Build, channels: int, client: Client) -> None:
    """Confluence: the streams' splits in turn, one stream after the other, or the other way round, in batches of any
    size; where rows come in another order, the same rows.
    """
    tables = {name: table.slice(0, 150) for name, table in splits(build).items()}
    cut = {name: in_pieces(table, 40) for name, table in tables.items()}
    rows_each = {name: pa.Table.from_batches(table.to_batches(1)) for name, table in tables.items()}
    others = {name: table.take(pa.array(range(len(table))[::-1])) for name, table in tables.items()}
    in_turn = [
        (name, piece) for pieces in zip(*cut.values(), strict=False) for name, piece in zip(cut, pieces, strict=True)
    ]
    in_turn += [(name, piece) for name in cut for piece in cut[name][min(map(len, cut.values())) :]]
    arrivals: list[list[tuple[str, pa.Table]]] = [
        list(tables.items()),
        [(name, piece) for name in cut for piece in cut[name]],
        [(name, piece) for name in reversed(cut) for piece in cut[name]],
        in_turn,
        list(rows_each.items()),
    ]
    results: list[pa.Table] = []
    with client.create_task(ended(build, channels)) as task:
        for arrival in (*arrivals, list(others.items())):
            for name, piece in arrival:
                task.add_split(name, piece)
            task.request_barrier()
            results.append(task.read_epoch())
    assert len({digest(table.schema, table.to_batches()) for table in results[:-1]}) == 1
    assert in_order(results[-1]) == in_order(results[0]) == in_order(answer(build, tables))


@CASES
def test_threads_and_cuts_do_not_show(build: Build) -> None:
    tables = {name: pa.concat_tables([table] * 30) for name, table in splits(build).items()}
    if "_join" in build.__name__:
        tables = {name: table.slice(0, 40 if name == "prices" else 70_000) for name, table in tables.items()}
    digests = set()
    for threads, cut in ((1, 777), (4, 65_536)):
        with tidegate.local(threads=threads) as client:
            cuts = {name: pa.Table.from_batches(table.to_batches(cut)) for name, table in tables.items()}
            result = client.run_graph(ended(build, 3), cuts).table()
            digests.add(digest(result.schema, result.to_batches()))
    assert len(digests) == 1


@pytest.mark.parametrize("build", [an_inner_join, a_sum, distinct_rows, a_sort], ids=lambda build: build.__name__)
def test_what_is_larger_than_memory_spills(build: Build) -> None:
    rows = numbers(240_000, keys=120_000)
    tables = {
        "numbers": rows,
        "prices": pa.table({"k": rows["v"], "price": rows["v"].cast("double"), "name": rows["v"].cast("string")}),
    }
    graph = ended(build, 1)
    names = [node.name for node in graph.value.nodes]
    with tidegate.local() as client, client.create_task(graph, memory_limit=SMALLEST_MEMORY) as task:
        row_counts = [task.run_epoch({name: tables[name] for name in tables if name in names}).rows for _ in range(2)]
    expected = {an_inner_join: 240_000, a_sum: 120_000, distinct_rows: 240_000, a_sort: 240_000}
    assert row_counts == [expected[build]] * 2


def test_an_order_over_channels_is_that_of_one(client: Client) -> None:
    rows = numbers(300_000, keys=1_000)
    graphs = [TaskGraph(), TaskGraph()]
    for graph, channels in zip(graphs, (1, 4), strict=True):
        graph.collect(graph.sort("sorted", fed(graph), ["k", "v"], descending=["k"], channels=channels))
    one, four = (client.run_graph(graph, {"numbers": rows}).table() for graph in graphs)
    assert one == four == rows.sort_by([("k", "descending"), ("v", "ascending")])


def test_stock_nodes_stand_between_executors_and_functions(client: Client) -> None:
    graph = TaskGraph()
    rows = fed(graph)
    even = rows.map(lambda batch: batch.filter(pa.compute.equal(pa.compute.bit_wise_and(batch["v"], 1), 0)))
    sums = graph.aggregate("sums", even, "k", {"total": ("sum", "v")}, channels=2)
    named = graph.join("named", sums, graph.distinct("keys", rows, "k"), on="k", channels=2)
    graph.collect(graph.top("best", graph.union(named, named), 2, "total", descending=True))
    table = client.run_graph(graph, {"numbers": numbers(1_000)}).table()
    totals = [sum(number for number in range(0, 1_000, 2) if number % 7 == key) for key in range(7)]
    assert table["total"].to_pylist() == [max(totals)] * 2


@pytest.mark.parametrize(
    ("build", "reason", "words"),
    [
        (lambda g: g.distinct("node", fed(g), "x"), "UNKNOWN_COLUMN", "there is no column 'x'; there are: k, v"),
        (lambda g: g.join("node", *two(g), on="v"), "UNKNOWN_COLUMN", "stream 'right': there is no column 'v'"),
        (lambda g: g.join("node", fed(g), "numbers", on="k"), "DUPLICATE_COLUMN", "both streams have a column 'v'"),
        (
            lambda g: g.aggregate("node", g.source("prices", PRICES), "k", {"sum": ("sum", "name")}),
            "BAD_STATEMENT",
            "sum",
        ),
        (lambda g: g.aggregate("node", fed(g), (), {"n": "count"}, channels=2), "BAD_CHANNELS", "one row"),
        (lambda g: g.count("node", fed(g), channels=0), "BAD_CHANNELS", "channels=0"),
        (
            lambda g: g.join("node", *two(g), on={"k": "price"}, how="semi", channels=2),
            "KEY_TYPES",
            "whole numbers",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_nodes_name(
    build: Callable[[TaskGraph], Stream], reason: str, words: str, client: Client
) -> None:
    graph = TaskGraph()
    graph.collect(build(graph))
    with pytest.raises(tidegate.PlanError) as raised:
        client.explain(graph)
    assert [problem.reason for problem in raised.value.problems] == [reason]
    assert words in str(raised.value)
    assert "node 'node'" in str(raised.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda g: g.join("node", *two(g), on=()),
        lambda g: g.join("node", *two(g), on="k", how="outer"),
        lambda g: g.aggregate("node", fed(g), "k", {"m": ("median", "v")}),
        lambda g: g.aggregate("node", fed(g), "k", {"m": "sum"}),
        lambda g: g.aggregate("node", fed(g), (), {}),
        lambda g: g.sort("node", fed(g), ()),
        lambda g: g.sort("node", fed(g), "k", descending="v"),
        lambda g: g.top("node", fed(g), -1, "k"),
    ],
)
def test_what_cannot_be_meant_is_refused_while_it_is_built(build: Callable[[TaskGraph], Stream]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="node 'node'"):
        build(TaskGraph())


def test_a_node_that_takes_two_steps_is_told_as_two(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(graph.sort("sorted", graph.source("numbers", NUMBERS), "v", channels=2))
    text = client.explain(graph).text
    assert "sorted.channels: sort by v" in text
    assert "sorted: merge of the channels' sorted rows" in text
