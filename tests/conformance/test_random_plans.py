"""Random plans, nested, over random rows: channels, splits' batches and the order of a sort, against DuckDB's SQL.

DataFusion plans the queries. Where a query says an order, it is an order of all columns, so that it is the only one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from datafusion.substrait import Serde
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.operators.arrays.digest import digest

from ..duckdb_oracle import oracle
from ..on_channels import on_channels
from ..searching import tries
from . import repeats

Rows: TypeAlias = list[tuple[object, ...]]

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
NAMES: Final = ("l", "r")
ORDER: Final = "ORDER BY k DESC NULLS LAST, v ASC NULLS FIRST, s ASC NULLS LAST"

# --- queries: each relation has the columns k, v, s --------------------------------------------------------------

BASES: Final = st.sampled_from([f"SELECT k, v, s FROM {name}" for name in NAMES])
CONDITIONS: Final = st.sampled_from(["v > 0", "s IS NULL", "k = 1 OR v < 0", "NOT (v = k)", "s IN ('a', 'b''')"])
PROJECTIONS: Final = st.sampled_from(
    [
        "v AS k, k + 1 AS v, s",
        "k, CASE WHEN v > 0 THEN v ELSE k END AS v, s",
        "coalesce(k, 7) AS k, v, coalesce(s, '-') AS s",
    ]
)
PAIRS: Final = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
PAIR_CONDITIONS: Final = st.sampled_from(["a.k = b.k", "a.k = b.k AND a.v < b.v", "a.k = b.v AND a.s = b.s"])
HALVES: Final = st.sampled_from(["EXISTS", "NOT EXISTS"])
SETS: Final = st.sampled_from(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
GROUPS: Final = st.sampled_from(
    [
        "k, CAST(sum(v) AS BIGINT) AS v, CAST(count(s) AS VARCHAR) AS s",
        "k, count(*) AS v, CAST(max(v) AS VARCHAR) AS s",
        "k, count(DISTINCT v) AS v, CAST(count(s) AS VARCHAR) AS s",
    ]
)


def row_wise(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda of, what: f"SELECT k, v, s FROM ({of}) AS t WHERE {what}", inside, CONDITIONS),
        st.builds(lambda of, what: f"SELECT {what} FROM ({of}) AS t", inside, PROJECTIONS),
    )


def pair(left: str, right: str, kind: str, on: str) -> str:
    return f"SELECT a.k AS k, b.v AS v, coalesce(a.s, b.s) AS s FROM ({left}) AS a {kind} ({right}) AS b ON {on}"


def half(left: str, right: str, kind: str, on: str) -> str:
    return f"SELECT a.k, a.v, a.s FROM ({left}) AS a WHERE {kind} (SELECT 1 FROM ({right}) AS b WHERE {on})"


def together(one: str, other: str, how: str) -> str:
    return f"SELECT k, v, s FROM ({one}) AS a {how} SELECT k, v, s FROM ({other}) AS b"


def any_way(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        row_wise(inside),
        st.builds(pair, inside, inside, PAIRS, PAIR_CONDITIONS),
        st.builds(half, inside, inside, HALVES, PAIR_CONDITIONS),
        st.builds(together, inside, inside, SETS),
        st.builds(lambda of, what: f"SELECT {what} FROM ({of}) AS t GROUP BY k", inside, GROUPS),
        st.builds(lambda of: f"SELECT DISTINCT k, v, s FROM ({of}) AS t", inside),
        st.builds(lambda of, n: f"SELECT k, v, s FROM ({of}) AS t {ORDER} LIMIT {n}", inside, st.integers(0, 5)),
    )


QUERIES: Final = st.recursive(BASES, any_way, max_leaves=4)
SORTED: Final = st.builds(lambda of: f"SELECT k, v, s FROM ({of}) AS t {ORDER}", QUERIES)
ROW_WISE: Final = st.recursive(
    BASES, lambda inside: row_wise(inside) | st.builds(together, inside, inside, st.just("UNION ALL")), max_leaves=4
)

# --- rows --------------------------------------------------------------------------------------------------------

VALUES: Final = st.tuples(
    st.none() | st.integers(0, 4), st.none() | st.integers(-9, 9), st.none() | st.sampled_from(["", "a", "b'"])
)
SPLITS: Final = st.lists(st.lists(VALUES, max_size=15), max_size=4)
FED: Final = st.tuples(SPLITS, SPLITS).map(
    lambda fed: dict(zip(NAMES, ([table(rows) for rows in splits] for splits in fed), strict=True))
)
Fed: TypeAlias = dict[str, list[pa.Table]]


def table(rows: Rows) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def whole(splits: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *splits])


def recut(splits: list[pa.Table], rows: int) -> list[pa.Table]:
    """The same splits, in batches of so many rows."""
    return [pa.Table.from_batches(split.combine_chunks().to_batches(max_chunksize=rows), SCHEMA) for split in splits]


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def planned(sql: str) -> bytes:
    session = datafusion.SessionContext()
    for name in NAMES:
        session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], SCHEMA)]])
    return bytes(Serde.serialize_bytes(sql, session))


def answer(client: tidegate.Client, plan: bytes, fed: Fed, channels: int = 1) -> pa.Table:
    with client.create_task(plan, **on_channels(channels)) as task:
        return task.run_epoch({name: fed[name] for name in task.sources}).table()


def right(sql: str, fed: Fed) -> Rows:
    with oracle({name: whole(splits) for name, splits in fed.items()}) as connection:
        return list(connection.sql(sql).fetchall())


def rows_of(result: pa.Table) -> Rows:
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))


def bits(result: pa.Table) -> str:
    return digest(result.schema, result.to_batches())


@settings(max_examples=tries(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(QUERIES, FED, st.integers(1, 4))
def test_rows_are_right_whatever_channels_and_batches(client: tidegate.Client, sql: str, fed: Fed, rows: int) -> None:
    plan, expected = planned(sql), Counter(right(sql, fed))
    results = [answer(client, plan, fed, channels) for channels in (1, 2, 3)]
    assert [Counter(rows_of(result)) for result in results] == [expected] * 3
    cut = {name: recut(splits, rows) for name, splits in fed.items()}
    assert bits(answer(client, plan, cut, 3)) == bits(results[2])


@settings(max_examples=tries(8), suppress_health_check=[HealthCheck.too_slow])
@given(SORTED, FED)
def test_sorted_rows_come_in_their_order_on_any_channels(client: tidegate.Client, sql: str, fed: Fed) -> None:
    plan, expected = planned(sql), right(sql, fed)
    for channels in (1, 2, 3):
        assert rows_of(answer(client, plan, fed, channels)) == expected


@settings(max_examples=tries(12), suppress_health_check=[HealthCheck.too_slow])
@given(ROW_WISE, FED)
def test_row_wise_rows_come_in_one_order_on_any_channels(client: tidegate.Client, sql: str, fed: Fed) -> None:
    plan = planned(sql)
    results = [answer(client, plan, fed, channels) for channels in (1, 2, 3)]
    assert Counter(rows_of(results[0])) == Counter(right(sql, fed))
    assert {bits(result) for result in results} == {bits(results[0])}


# --- large inputs, on a busy machine -----------------------------------------------------------------------------

LARGE_ROWS: Final = 200_000
USED_SHAPES: Final = ("parts of files", "files of two schemas", "three shares of parts")
SHAPES: Final = st.sampled_from(USED_SHAPES)
UNORDERED: Final = st.sampled_from(
    [
        "SELECT DISTINCT k, v, s FROM ({of}) AS t",
        "SELECT k, sum(v / 3.0) AS v, count(*) AS n FROM ({of}) AS t GROUP BY k",
        "SELECT v, k, s FROM ({of}) AS t ORDER BY v % 7",
    ]
)
"""Relations that take their rows in any order."""
LargeFed: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LargeFed]]:
    """Files of either source in each shape, beside processes that burn every core and the disk."""
    folder = tmp_path_factory.mktemp("large")
    tables = {name: large_table(seed) for seed, name in enumerate(NAMES)}
    fed: dict[str, dict[str, Sequence[Any]]] = {}
    for shape in USED_SHAPES:
        for name, table in tables.items():
            table_folder = folder / shape / name
            table_folder.mkdir(parents=True)
            fed.setdefault(shape, {})[name] = repeats.SHAPES[shape].splits(table_folder, table)
    with repeats.busy(folder):
        yield folder, fed


def large_table(seed: int) -> pa.Table:
    """A few rows of each key, some of them null, so that joins stay small and groups are many."""
    chooser = np.random.default_rng(seed)
    numbers = [chooser.integers(-5, LARGE_ROWS, LARGE_ROWS) for _ in range(2)]
    k, v = (pa.array(column, mask=chooser.random(LARGE_ROWS) < 0.0001) for column in numbers)
    return pa.table({"k": k, "v": v, "s": k.cast(pa.string())}, SCHEMA)


@settings(max_examples=tries(3))
@given(st.builds(lambda sink, of: sink.format(of=of), UNORDERED, QUERIES), SHAPES)
def test_large_files_give_one_digest_on_a_busy_machine(
    client_of_files: tidegate.Client, large: tuple[Path, LargeFed], sql: str, shape: str
) -> None:
    folder, fed = large
    plan, channels = planned(sql), repeats.SHAPES[shape].channels
    digests = set()
    for _ in range(4):
        repeats.forget(folder)
        with client_of_files.create_task(plan, **on_channels(channels)) as task:
            digests.add(bits(task.run_epoch({name: fed[shape][name] for name in task.sources}).table()))
    assert len(digests) == 1


@pytest.fixture(scope="module")
def client_of_files() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client
