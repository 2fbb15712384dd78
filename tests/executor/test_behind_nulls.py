"""Results carry zeros behind their nulls, where engines leave what was in memory: numbers of other tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate

from ..conformance.resident_kinds import planned_over

SCHEMA = pa.schema([("k", pa.int64()), ("g", pa.int64())])
SECRET = pa.table({"k": np.full(200_000, 0x5EC2E75EC2E7), "g": np.arange(200_000)}, schema=SCHEMA)
OWN = pa.table(
    {"k": pa.array([None if at % 3 else at for at in range(5_000)]), "g": np.arange(5_000) % 7}, schema=SCHEMA
)
QUERIES = (
    "SELECT g, max(CASE WHEN g > 5 THEN k END) AS m FROM l GROUP BY g ORDER BY g",
    "SELECT a.g, b.k FROM l AS a LEFT JOIN (SELECT * FROM l WHERE g < 2) AS b ON a.k = b.g",
    "SELECT g, lag(k) OVER (ORDER BY g) AS p FROM l",
    "SELECT nullif(k + 1, 1) AS n, CASE WHEN g > 5 THEN k * 2 END AS c, CAST(k AS DOUBLE) AS d FROM l",
)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


def behind_nulls(table: pa.Table) -> set[int]:
    """The bytes behind the nulls, as numbers."""
    numbers: set[int] = set()
    for chunk in (chunk for column in table.columns for chunk in column.chunks if chunk.null_count):
        values = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * 8)
        numbers.update(values[np.asarray(chunk.is_null())].tolist())
    return numbers


def rows_of(client: tidegate.Client, plan: bytes, rows: pa.Table, **options: Any) -> pa.Table:
    with client.create_task(plan, **options) as task:
        task.add_split("l", rows)
        task.request_barrier()
        task.no_more_splits()
        return pa.Table.from_batches(list(task.batches()))


@pytest.mark.parametrize("options", [{}, {"determinism": "relaxed"}, {"mode": "continuous"}], ids=str)
@pytest.mark.parametrize("query", QUERIES)
def test_rows_have_zeros_behind_their_nulls_after_the_work_of_others(
    client: tidegate.Client, query: str, options: dict[str, Any]
) -> None:
    plan = planned_over(SCHEMA, query)
    rows_of(client, plan, SECRET, **options)
    rows = rows_of(client, plan, OWN, **options)
    assert behind_nulls(rows) == {0}


def test_arrow_files_that_are_written_have_zeros_there_too(client: tidegate.Client, tmp_path: Path) -> None:
    graph = tidegate.TaskGraph()
    stream = graph.sql("nulls", QUERIES[-1], {"l": graph.read_arrow(OWN)})
    graph.write(stream, tmp_path, format="arrow")
    with client.create_task(graph) as task:
        task.run_epoch({})
    (written,) = tmp_path.glob("*.arrow")
    with pa.ipc.open_file(written) as file:
        assert behind_nulls(file.read_all()) == {0}
