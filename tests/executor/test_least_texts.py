"""The least and the greatest of texts, bytes and truth values, which the official functions lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pytest

import tidegate

from ..continuous.histories import Changed, Integral, changes, multiset, planned, total
from ..duckdb_oracle import oracle
from ..on_channels import on_channels

SCHEMA: Final = pa.schema([("k", pa.int64()), ("s", pa.string()), ("b", pa.binary()), ("t", pa.bool_())])
QUERIES: Final = {
    "of all": "SELECT min(s), max(s), min(b), max(b), min(t), max(t) FROM l",
    "of groups": "SELECT k, min(s), max(b), min(t) FROM l GROUP BY k",
    "of partitions": "SELECT k, min(s) OVER (PARTITION BY k), max(t) OVER (PARTITION BY k) FROM l",
    "of running frames": "SELECT k, s, min(s) OVER (PARTITION BY k ORDER BY s), max(s) OVER (ORDER BY s) FROM l",
}
HISTORY: Final[list[Changed]] = [
    [
        ((1, "b", b"\xff", True), 1),
        ((1, "", None, False), 1),
        ((2, None, b"", None), 1),
        ((None, "\u00e4", b"a", True), 2),
    ],
    [((1, "", None, False), -1), ((2, "z", b"\x00", None), 1), ((1, "\U0001f300", b"a", True), 1)],
    [((None, "\u00e4", b"a", True), -2), ((2, None, b"", None), -1)],
]


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def answer(sql: str, rows: pa.Table) -> Counter[tuple[object, ...]]:
    with oracle({"l": rows}) as connection:
        return multiset(connection.sql(sql).fetchall())


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("channels", [1, 2])
def test_they_are_those_of_duckdb(client: tidegate.Client, sql: str, channels: int) -> None:
    plan, integral = planned(sql, {"l": SCHEMA}), Integral()
    with (
        client.create_task(plan, mode="continuous", channels=channels) as following,
        client.create_task(plan, **on_channels(channels)) as alone,
    ):
        for number, epoch in enumerate(HISTORY, 1):
            rows = total([{"l": epoch_changes} for epoch_changes in HISTORY[:number]], "l", SCHEMA)
            integral.add(following.run_epoch({"l": changes(epoch, SCHEMA)}).table())
            assert integral.rows == answer(sql, rows)
            columns = alone.run_epoch({"l": rows}).table().columns
            assert multiset(zip(*(column.to_pylist() for column in columns), strict=True)) == answer(sql, rows)
