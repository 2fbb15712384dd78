"""Plans on several channels with the threshold that is shipped: most other tests spread whatever saves anything.

An epoch of a few rows runs on one channel and a large one of the same task on all; the answers are right in both.
"""

from __future__ import annotations

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

from .test_cut_by_keys import assert_same_rows

ROWS: Final = {"few": 100_000, "many": 8_000_000}
QUERIES: Final = {
    "groups": "SELECT k, count(*) AS n, sum(v) AS s FROM t WHERE v <> 5 GROUP BY k",
    "global": "SELECT count(*) AS n, min(v) AS least, sum(k) AS s FROM t",
    "join": "SELECT d.g, sum(t.v) AS s FROM t JOIN d ON t.k = d.k GROUP BY d.g",
    "semi join": "SELECT v, count(*) AS n FROM t WHERE k IN (SELECT k FROM d WHERE g > 3) GROUP BY v",
    "sorted": "SELECT k, max(v) AS m FROM t GROUP BY k ORDER BY m DESC, k LIMIT 20",
}


def numbers(count: int) -> pa.Table:
    at = np.arange(count)
    return pa.table({"k": at * 7_919 % 1_009, "v": at % 97})


DIM: Final = pa.table({"k": np.arange(900), "g": np.arange(900) % 13})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_folder = tmp_path_factory.mktemp("shipped")
    for name, count in ROWS.items():
        pq.write_table(numbers(count), data_folder / f"{name}.parquet", row_group_size=250_001)
    return data_folder


def plan_of(sql: str) -> bytes:
    session = datafusion.SessionContext()
    for name, table in (("t", numbers(1)), ("d", DIM)):
        session.register_record_batches(name, [table.slice(0, 1).to_batches()])
    return bytes(Serde.serialize_bytes(sql, session))


@pytest.mark.parametrize("name", QUERIES)
def test_small_and_large_epochs_of_a_task_are_right(name: str, folder: Path) -> None:
    sql, exchanged = QUERIES[name], {}
    with tidegate.local(roots=[folder]) as client, client.create_task(plan_of(sql), channels=2) as task:
        for size in ROWS:
            before = moved(task)
            fed = {"t": folder / f"{size}.parquet", "d": DIM}
            result = task.run_epoch({source: fed[source] for source in task.sources}).table()
            exchanged[size] = moved(task) - before
            with duckdb.connect() as connection:
                connection.execute(f"CREATE VIEW t AS FROM '{folder}/{size}.parquet'")
                connection.register("d", DIM)
                assert_same_rows(result, connection.sql(sql).to_arrow_table())
    assert exchanged["few"] == 0 < exchanged["many"]


def moved(task: tidegate.Task) -> int:
    """The rows that exchanges have taken so far."""
    return sum(operator.rows_in for operator in task.statistics().operators if operator.operator == "Exchange")
