"""Plans over long texts give the rows that DuckDB gives, and the same rows in every run and in any batches."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows
from tidegate.operators.duckdb.long_values import LONG

from ..conformance import unfolding
from ..conformance.resident_kinds import SCHEMA, planned
from ..duckdb_oracle import oracle
from ..on_channels import on_channels

MIB: Final = 1 << 20
LENGTHS: Final = (0, 1, LONG - 1, LONG, LONG + 1, 3 * LONG, 40_000)
ROWS: Final = 1_500
"""So many rows that their long texts are more than what stays in memory."""

QUERIES: Final = {
    "sort": "SELECT k, g, t FROM l ORDER BY k DESC",
    "window": "SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY k DESC) AS n FROM l",
    "window by the text": "SELECT k, count(k) OVER (PARTITION BY t) AS n FROM l",
    "window over the text": "SELECT k, lag(t) OVER (PARTITION BY g ORDER BY k) AS p FROM l",
    "groups of texts": "SELECT t, count(k) AS n FROM l GROUP BY t",
    "distinct": "SELECT DISTINCT g, t FROM l",
    "distinct texts": "SELECT g, count(DISTINCT t) AS n FROM l GROUP BY g",
    "union": "SELECT t FROM l UNION SELECT t FROM r",
    "except": "SELECT t FROM l EXCEPT SELECT t FROM r",
    "intersect": "SELECT t FROM l INTERSECT SELECT t FROM r",
    "join": "SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k",
    "full join": "SELECT l.k, l.t, r.t AS u FROM l FULL JOIN r ON l.k = r.k",
    "join on the text": "SELECT l.k, r.k AS m, r.t FROM l JOIN r ON l.t = r.t WHERE l.k < 60",
    "semi join on the text": "SELECT k, t FROM l WHERE t IN (SELECT t FROM r)",
    "a sort of a union": "SELECT k, t FROM (SELECT k, t FROM l UNION ALL SELECT k, t FROM r) ORDER BY k",
    "a window over a union with nulls": (
        "SELECT k, t, count(k) OVER (ORDER BY k) AS n FROM (SELECT k, t FROM l UNION ALL SELECT k + 9000, NULL FROM r)"
    ),
    "grouping sets": "SELECT g, t, count(k) AS n FROM l GROUP BY GROUPING SETS ((g), (t), ())",
    "a condition": "SELECT k, t FROM l WHERE t <> '' ORDER BY k",
    "a text that is looked at": "SELECT k, t, length(t) AS n FROM l ORDER BY k",
    "a text that is sorted by": "SELECT k, t FROM l ORDER BY t, k",
    "a text that is sorted by, from the greatest": "SELECT k, t FROM l ORDER BY t DESC NULLS LAST, k LIMIT 900",
    "greatest": "SELECT g, max(t) AS t, min(t) AS u FROM l GROUP BY g",
    "greatest of all": "SELECT max(t) AS t, count(*) AS n FROM l",
    "greatest of some": "SELECT g, max(t) FILTER (WHERE k > 700) AS t FROM l GROUP BY g",
    "greatest of two inputs": "SELECT g, max(t) AS t FROM (SELECT g, t FROM l UNION SELECT g, t FROM r) GROUP BY g",
    "greatest in a window": "SELECT k, max(t) OVER (PARTITION BY g ORDER BY k) AS t FROM l",
    "window ordered by the text": "SELECT k, rank() OVER (PARTITION BY g ORDER BY t) AS n FROM l",
    "a long default": f"SELECT k, lag(t, 1, '{'d' * 3_000}') OVER (PARTITION BY g ORDER BY k) AS p FROM l",
    "a default like a name": f"SELECT k, lead(t, 2, '{'0' * 2_049}') OVER (PARTITION BY g ORDER BY k) AS p FROM l",
    "a text as the default": "SELECT k, lag(t, 1, t) OVER (PARTITION BY g ORDER BY k) AS p FROM l",
    "a text that is compared": "SELECT l.k, r.k AS m, r.t FROM l JOIN r ON l.g = r.g WHERE l.t < r.t AND l.k < 90",
    "a text that is compared with a constant": "SELECT k, t FROM l WHERE t >= 'xx' ORDER BY k",
}


def rows(seed: int, count: int) -> pa.Table:
    """Texts of all lengths, many of them alike but for their last bytes, some equal, some null."""
    random = np.random.default_rng(seed)
    lengths = random.choice(LENGTHS, count)
    ends = random.integers(0, 20, count)
    texts = [f"{'x' * length}{end:02}"[-length:] if length else "" for length, end in zip(lengths, ends, strict=True)]
    texts_and_nulls = [None if end == 3 else text for text, end in zip(texts, ends, strict=True)]
    return pa.table([np.arange(count), np.arange(count) % 7, pa.array(texts_and_nulls, pa.string())], schema=SCHEMA)


TABLES: Final = {"l": rows(1, ROWS), "r": rows(2, ROWS // 5)}


def run(sql: str, rows_at_once: int, **options: object) -> pa.Table:
    return run_plan(planned(sql), rows_at_once, **options)


def run_plan(plan: bytes, rows_at_once: int, **options: object) -> pa.Table:
    options = {"memory_limit": 64 * MIB} | options
    with tidegate.local() as client, client.create_task(plan, **options) as task:
        for name in task.sources:
            for batch in TABLES[name].to_batches(max_chunksize=rows_at_once):
                task.add_split(name, batch)
        task.request_barrier()
        task.no_more_splits()
        return pa.Table.from_batches(task.batches(), task.schema)


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb_in_an_order_that_batches_do_not_change(query: str) -> None:
    sql = QUERIES[query]
    with oracle(TABLES) as connection:
        expected = connection.sql(sql).to_arrow_table()
    result = run(sql, ROWS)
    assert counted(result) == counted(expected)
    if "ORDER BY" in sql and "OVER" not in sql:
        assert result["k"].to_pylist() == expected["k"].to_pylist()
    assert run(sql, 401).equals(result)


@pytest.mark.parametrize("options", [{}, on_channels(2)], ids=str)
def test_sliding_windows_of_texts_are_those_of_duckdb(options: dict[str, object]) -> None:
    source = sub.read_named_table("l", {"k": sub.i64, "g": sub.i64, "t": sub.string})
    measures = [sub.f.count(sub.col("k")).alias("n"), sub.f.sum(sub.col("k")).alias("s")]
    plan = windows.sliding(source, "k", 100, 50, keys=["t"], measures=measures).to_plan().SerializeToString()
    sql = """
        SELECT start, start + 100, t, count(k), sum(k)::BIGINT
        FROM l, (VALUES (0), (50)) AS w(earlier), LATERAL (SELECT k // 50 * 50 - earlier AS start) GROUP BY start, t
    """
    with oracle(TABLES) as connection:
        expected = connection.sql(sql).to_arrow_table()
    result = run_plan(plan, ROWS, **options)
    assert counted(result) == counted(expected)
    assert run_plan(plan, 401, **options).equals(result)


@pytest.mark.parametrize("options", [on_channels(2), {"determinism": "relaxed"}], ids=str)
@pytest.mark.parametrize(
    "query", ["sort", "distinct", "join", "union", "greatest", "greatest of all", "a text that is sorted by"]
)
def test_rows_are_the_same_on_two_channels_and_in_relaxed_tasks(query: str, options: dict[str, object]) -> None:
    assert counted(run(QUERIES[query], ROWS, **options)) == counted(run(QUERIES[query], ROWS))


NESTED = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.string())), ("s", pa.struct([("t", pa.string())]))])


@pytest.mark.parametrize("query", ["SELECT k, v, s FROM l ORDER BY k DESC", "SELECT DISTINCT v, s FROM l"])
def test_long_texts_inside_of_lists_and_structs_come_back(query: str) -> None:
    texts = TABLES["l"]["t"].to_pylist()
    rows = pa.table(
        [range(500), [texts[at : at + at % 4] for at in range(500)], [{"t": text} for text in texts[:500]]],
        schema=NESTED,
    )
    plan = unfolding.planned(query, NESTED)
    with tidegate.local() as client, client.create_task(plan, memory_limit=64 * MIB) as task:
        task.add_split("l", rows)
        task.request_barrier()
        task.no_more_splits()
        received = pa.Table.from_batches(task.batches(), task.schema)
    if "DISTINCT" in query:
        assert sorted(map(repr, received.to_pylist())) == sorted({repr(row) for row in rows.drop(["k"]).to_pylist()})
    else:
        assert received.to_pylist() == rows.to_pylist()[::-1]
