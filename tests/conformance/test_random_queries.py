"""Random queries over random rows, splits and barriers: DataFusion plans them, and says what is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import datafusion
import pyarrow as pa
import pytest
from datafusion.substrait import Serde
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate

from ..on_channels import on_channels
from ..searching import tries

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])

Row = tuple[int | None, int | None, str | None]
ROWS: Final = st.lists(
    st.tuples(
        st.none() | st.integers(0, 4), st.none() | st.integers(-9, 9), st.none() | st.sampled_from(["", "a", "b'"])
    ),
    max_size=12,
)
SPLITS: Final = st.lists(ROWS, max_size=3)

CONDITIONS: Final = st.sampled_from(
    ["l.v > 0", "l.s IS NULL", "l.k = 1 OR l.v < 0", "NOT (l.v = l.k)", "l.s IN ('a', 'b''')", "l.v BETWEEN -2 AND 5"]
)
JOINS: Final = st.sampled_from(
    [
        "l",
        "l JOIN r ON l.k = r.k",
        "l LEFT JOIN r ON l.k = r.k AND l.v < r.v",
        "l RIGHT JOIN r ON l.k = r.k",
        "l FULL JOIN r ON l.k = r.k AND l.s = r.s",
        "l LEFT SEMI JOIN r ON l.k = r.k",
        "l LEFT ANTI JOIN r ON l.k = r.k AND l.v = r.v",
    ]
)
SHAPES: Final = st.sampled_from(
    [
        "SELECT l.k, l.v, l.s {rest}",
        "SELECT DISTINCT l.s {rest}",
        "SELECT l.k, count(*) AS n, sum(l.v) AS t, min(l.v) AS least, count(DISTINCT l.v) AS d {rest} GROUP BY l.k",
        "SELECT count(*) AS n, max(l.v) AS most {rest}",
        "SELECT l.k, l.v + coalesce(l.k, 0) AS w, CASE WHEN l.v > 0 THEN l.s END AS c {rest}",
        "SELECT l.s, sum(l.v) AS t {rest} GROUP BY l.s HAVING count(*) > 1",
        "SELECT l.k, l.v {rest} UNION ALL SELECT k, v FROM r",
        "SELECT l.k {rest} INTERSECT SELECT k FROM r",
        "SELECT l.k {rest} EXCEPT SELECT k FROM r",
        "SELECT l.k, l.v, l.s {rest} ORDER BY l.v DESC NULLS LAST, l.k NULLS FIRST, l.s NULLS FIRST LIMIT 3",
    ]
)
QUERIES: Final = st.builds(
    lambda shape, join, condition: shape.format(rest=f"FROM {join} WHERE {condition}"), SHAPES, JOINS, CONDITIONS
)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def table(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def session(tables: dict[str, pa.Table]) -> datafusion.SessionContext:
    context = datafusion.SessionContext()
    for name, table in tables.items():
        context.register_record_batches(name, [table.to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]])
    return context


def multiset(result: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in result.columns), strict=True))


@settings(max_examples=tries(60))
@given(QUERIES, st.lists(st.tuples(SPLITS, SPLITS), min_size=1, max_size=3), st.sampled_from([1, 2, 3]))
def test_every_epoch_is_what_another_engine_says_of_its_splits(
    client: tidegate.Client, sql: str, epochs: list[tuple[list[list[Row]], list[list[Row]]]], channels: int
) -> None:
    empty = dict.fromkeys("lr", table([]))
    with client.create_task(Serde.serialize_bytes(sql, session(empty)), **on_channels(channels)) as task:
        for splits in epochs:
            fed = {name: [table(rows) for rows in split_rows] for name, split_rows in zip("lr", splits, strict=True)}
            whole = {name: pa.concat_tables([empty[name], *split_tables]) for name, split_tables in fed.items()}
            expected = session(whole).sql(sql).to_arrow_table()
            result = task.run_epoch({name: fed[name] for name in task.sources}).table()
            assert multiset(result) == multiset(expected)
