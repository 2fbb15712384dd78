"""Stock nodes over any rows: joins, aggregates, distinct, sorts, first rows and statements give what SQL gives.

Class of bug: rows that are there twice, nulls in keys, NaN and -0.0, streams without rows, names in need of quotes, as
they meet on any number of channels and over several epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import Client, TaskGraph
from tidegate.graph import Stream

from ..duckdb_oracle import oracle
from ..searching import tries

SCHEMA: Final = pa.schema([("k", pa.int64()), ("the x", pa.float64()), ("s", pa.string())])
OTHER: Final = pa.schema([("k", pa.int64()), ("the x", pa.float64()), ("t", pa.string())])
KEYS: Final = st.sets(st.sampled_from(["k", "the x"]), min_size=1).map(sorted)
ROWS: Final = st.lists(
    st.tuples(
        st.sampled_from([None, -1, 0, 1, 2, 1 << 62]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("-inf")]),
        st.sampled_from([None, "", "a", "é", "a'b"]),
    ),
    max_size=12,
)
CHANNELS: Final = st.integers(1, 3)
Rows: TypeAlias = Sequence[tuple[Any, ...]]
EPOCHS: Final = st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=2)

many = settings(max_examples=tries(4), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with tidegate.local(roots=()) as client:
        yield client


def table(rows: Rows, schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def two(graph: TaskGraph) -> tuple[Stream, Stream]:
    return graph.source("one", SCHEMA), graph.source("other", OTHER)


def names(columns: Sequence[str]) -> list[str]:
    return [f'"{column}"' for column in columns]


def comparable(result: pa.Table) -> list[str]:
    """Rows in which -0.0 is 0.0 and NaN is equal to itself: which of equal values a key is told by, nobody says."""
    rows = zip(*(column.to_pylist() for column in result.columns), strict=True)
    return [repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row)) for row in rows]


def check(client: Client, graph: TaskGraph, end: Stream, sql: str, epochs: Sequence[tuple[Rows, Rows]]) -> None:
    """Each epoch of a task has the rows of a statement of DuckDB's over the same tables."""
    graph.collect(end)
    with client.create_task(graph) as task:
        for one, other in epochs:
            tables = {"one": table(one, SCHEMA), "other": table(other, OTHER)}
            result = task.run_epoch({name: tables[name] for name in task.sources}).table()
            expected = answer(sql, tables)
            assert result.schema.names == expected.schema.names
            assert sorted(comparable(result)) == sorted(comparable(expected))


def answer(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    with oracle(tables) as connection:
        return connection.sql(sql).to_arrow_table()


@many
@given(
    how=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]), on=KEYS, epochs=EPOCHS, channels=CHANNELS
)
def test_joins(client: Client, how: str, on: list[str], epochs: list[tuple[Rows, Rows]], channels: int) -> None:
    """A column that is called alike in the other stream, and is no key, has another name there."""
    graph = TaskGraph()
    one, other = two(graph)
    renamed = [column if column in (*on, "t") else f"other {column}" for column in OTHER.names]
    columns = [f"{before} AS {after}" for before, after in zip(names(OTHER.names), names(renamed), strict=True)]
    right = f"SELECT {', '.join(columns)} FROM other"
    streams = one, graph.sql("renamed", right, {"other": other})
    result_columns = [*SCHEMA.names, *([] if how in ("semi", "anti") else [name for name in renamed if name not in on])]
    sql = f"SELECT {', '.join(names(result_columns))} FROM one {how} JOIN ({right}) USING ({', '.join(names(on))})"
    check(client, graph, graph.join("node", *streams, on=on, how=how, channels=channels), sql, epochs)


@many
@given(by=st.sets(st.sampled_from(SCHEMA.names)).map(sorted), epochs=EPOCHS, channels=CHANNELS)
def test_aggregates(client: Client, by: list[str], epochs: list[tuple[Rows, Rows]], channels: int) -> None:
    graph = TaskGraph()
    few = graph.sql("few", "SELECT * FROM one WHERE k IS NULL OR k < 100", {"one": graph.source("one", SCHEMA)})
    measures: Mapping[str, Any] = {
        "rows": "count",
        "known": ("count", "the x"),
        "kinds": ("count_distinct", "s"),
        "total": ("sum", "k"),
        "middle": ("mean", "k"),
        "least": ("min", "s"),
        "the most": ("max", "the x"),
    }
    node = graph.aggregate("node", few, by, measures, channels=channels if by else 1)
    aggregates = """count(*) AS rows, count("the x") AS known, count(DISTINCT s) AS kinds, sum(k)::BIGINT AS total,
              avg(k) AS middle, min(s) AS least, max("the x") AS "the most" """
    grouped = f"GROUP BY {', '.join(names(by))}" if by else ""
    sql = f"SELECT {', '.join([*names(by), aggregates])} FROM one WHERE k IS NULL OR k < 100 {grouped}"
    check(client, graph, node, sql, epochs)


@many
@given(columns=st.sets(st.sampled_from(SCHEMA.names), min_size=1).map(sorted), epochs=EPOCHS, channels=CHANNELS)
def test_distinct_rows(client: Client, columns: list[str], epochs: list[tuple[Rows, Rows]], channels: int) -> None:
    graph = TaskGraph()
    node = graph.distinct("node", graph.source("one", SCHEMA), columns, channels=channels)
    check(client, graph, node, f"SELECT DISTINCT {', '.join(names(columns))} FROM one", epochs)


@many
@given(
    keys=st.permutations(SCHEMA.names),
    down=st.sets(st.sampled_from(SCHEMA.names)),
    first=st.none() | st.integers(0, 9),
    epochs=EPOCHS,
    channels=CHANNELS,
)
def test_sorts_and_first_rows(
    client: Client, keys: list[str], down: set[str], first: int | None, epochs: list[tuple[Rows, Rows]], channels: int
) -> None:
    """By all columns, so that there is one order."""
    graph = TaskGraph()
    rows, descending = graph.source("one", SCHEMA), sorted(down)
    if first is None:
        graph.collect(graph.sort("node", rows, keys, descending=descending, channels=channels))
    else:
        graph.collect(graph.top("node", rows, first, keys, descending=descending, channels=channels))
    by = ", ".join(f'"{key}" {"DESC" if key in down else "ASC"} NULLS LAST' for key in keys)
    sql = f"SELECT * FROM one ORDER BY {by} {'' if first is None else f'LIMIT {first}'}"
    with client.create_task(graph) as task:
        for one, _ in epochs:
            result = task.run_epoch({"one": table(one, SCHEMA)}).table()
            assert comparable(result) == comparable(answer(sql, {"one": table(one, SCHEMA)}))


@many
@given(epochs=EPOCHS, channels=CHANNELS, key=st.sampled_from(SCHEMA.names))
def test_counts_unions_and_statements(client: Client, epochs: list[tuple[Rows, Rows]], channels: int, key: str) -> None:
    """What a statement makes of the rows of each key, and how many rows it was given."""
    graph = TaskGraph()
    one, other = two(graph)
    same = graph.sql("same", 'SELECT k, "the x", t AS s FROM other', {"other": other})
    both = graph.union(one, same)
    statement = f'SELECT "{key}", count(*) AS n FROM "both" GROUP BY ALL'
    groups = graph.sql("groups", statement, {"both": both}, channels=channels, partition=key)
    total = graph.sql("total", "SELECT NULL, count FROM c", {"c": graph.count("count", both, channels=channels)})
    node = graph.sql("node", "FROM g UNION ALL FROM t", {"g": groups, "t": total})
    whole = 'WITH "both" AS (FROM one UNION ALL FROM other)'
    check(client, graph, node, f'{whole} {statement} UNION ALL SELECT NULL, count(*) FROM "both"', epochs)
