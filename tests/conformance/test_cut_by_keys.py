"""Sources whose files are clustered by the key that joins or groups them: each channel reads its range of keys.

Class of bug: a row at the edge of a range that two channels read, or none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

import datafusion
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion.substrait import Serde

import tidegate

from ..on_channels import on_channels
from ..searching import one_of_each

KEYS: Final = 150_000

QUERIES: Final = {
    "inner": "SELECT o.k, sum(l.v) AS s, max(o.w) AS w FROM l JOIN o ON l.k = o.k GROUP BY o.k",
    "left": "SELECT o.k, count(l.v) AS n FROM o LEFT JOIN l ON l.k = o.k GROUP BY o.k",
    "full": "SELECT o.w, l.v FROM o FULL JOIN l ON l.k = o.k",
    "semi": "SELECT w FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.k = o.k AND l.v > 900)",
    "anti": "SELECT w FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.k = o.k AND l.v > 100)",
    "groups": "SELECT k, sum(v) AS s, count(DISTINCT v) AS d FROM l GROUP BY k",
    "window": "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM l",
    "sorted": "SELECT o.k, sum(l.v) AS s FROM l JOIN o ON l.k = o.k GROUP BY o.k ORDER BY s DESC, o.k LIMIT 50",
}


def tables() -> dict[str, pa.Table]:
    """Keys from below zero on, some on one side only, some with very many rows."""
    random = np.random.default_rng(5)
    many = np.full(60_000, 31_000)
    keys = np.sort(np.concatenate([random.integers(-2_000, KEYS, 300_000), many]))
    lines = pa.table({"k": keys, "v": random.integers(0, 1_000, len(keys))})
    orders = np.arange(0, KEYS * 2)
    return {"l": lines, "o": pa.table({"k": orders, "w": random.integers(0, 50, len(orders))})}


TABLES: Final = tables()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_folder = tmp_path_factory.mktemp("clustered")
    for name, table in TABLES.items():
        pq.write_table(table, data_folder / f"{name}.parquet", row_group_size=20_000)
    return data_folder


def plan_of(sql: str) -> bytes:
    session = datafusion.SessionContext()
    for name, table in TABLES.items():
        session.register_record_batches(name, [table.slice(0, 1).to_batches()])
    return bytes(Serde.serialize_bytes(sql, session))


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.schema.names])


@pytest.fixture(scope="module")
def expected() -> Callable[[str], pa.Table]:
    """DuckDB's answer to one of the queries."""
    connection = duckdb.connect()
    for source, table in TABLES.items():
        connection.register(source, table)
    return cache(lambda name: connection.sql(QUERIES[name]).to_arrow_table())


def assert_same_rows(actual: pa.Table, expected: pa.Table) -> None:
    """The engine's types of sums are larger than a plan's: what is compared is the values."""
    assert in_order(actual).equals(in_order(expected.cast(actual.schema)))


@pytest.mark.parametrize(("name", "channels"), one_of_each(product(QUERIES, [2, 3, 7])))
def test_no_row_is_lost_or_doubled_at_the_edge_of_a_range(
    name: str, channels: int, folder: Path, expected: Callable[[str], pa.Table]
) -> None:
    sources = {source: str(folder / f"{source}.parquet") for source in TABLES if f" {source}" in QUERIES[name]}
    with tidegate.local() as client, client.create_task(plan_of(QUERIES[name]), **on_channels(channels)) as task:
        answer = task.run_epoch(sources).table()
        exchanged = sum(operator.rows_in for operator in task.statistics().operators if operator.operator == "Exchange")
    assert_same_rows(answer, expected(name))
    # The result is gathered; that is all that moves between channels.
    assert exchanged <= answer.num_rows + 50 * channels


def test_what_a_footer_does_not_tell_is_not_cut(folder: Path, tmp_path: Path) -> None:
    """Without statistics there are no ranges; the answer is the same."""
    pq.write_table(TABLES["l"], tmp_path / "l.parquet", row_group_size=20_000, write_statistics=False)
    plan = plan_of(QUERIES["inner"])
    with tidegate.local() as client, client.create_task(plan, **on_channels(2)) as task:
        one = task.run_epoch({"l": str(tmp_path / "l.parquet"), "o": str(folder / "o.parquet")}).table()
        other = task.run_epoch({"l": str(folder / "l.parquet"), "o": str(folder / "o.parquet")}).table()
    assert_same_rows(one, other)


def test_explain_is_valid_json_for_a_plan_on_channels() -> None:
    with tidegate.local() as client:
        assert json.loads(client.explain(plan_of(QUERIES["inner"]), **on_channels(2)).json)["channels"] == 2
