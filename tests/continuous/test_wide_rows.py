"""Wide rows stay where they are until they are taken: all answers are right, also if every text counts as wide."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.operators.changes import distinct_or_set_op, regroup, window
from tidegate.operators.changes.kept import arrangement
from tidegate.operators.changes.values import portions, rows, scattered_column
from tidegate.operators.changes.values.scattered_column import ScatteredColumn
from tidegate.operators.changes.values.value_columns import ArrowColumn
from tidegate.operators.core import wide_rows

from ..conformance.resident_kinds import SCHEMA, planned
from ..duckdb_oracle import oracle
from ..searching import one_of_each
from .histories import Changed, Integral, changes, multiset, total

QUERIES = (
    "SELECT k, g, t FROM l WHERE k >= 1",
    "SELECT g, max(t) AS m, min(t) AS n, count(k) AS c FROM l GROUP BY g",
    "SELECT t, count(k) AS n FROM l GROUP BY t",
    "SELECT g, string_agg(t, ',' ORDER BY t) AS m FROM l GROUP BY g",
    "SELECT k, g, t, max(t) OVER (PARTITION BY g) AS m FROM l",
    "SELECT k, g, t, lag(t) OVER (PARTITION BY g ORDER BY k, t) AS p FROM l",
    "SELECT k, t, row_number() OVER (ORDER BY t, k, g) AS n FROM l",
    "SELECT DISTINCT g, t FROM l",
    "SELECT k, t FROM l UNION SELECT k, t FROM r",
    "SELECT k, t FROM l EXCEPT SELECT k, t FROM r",
    "SELECT k, t FROM l INTERSECT SELECT k, t FROM r",
    "SELECT k, t FROM (SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY t, k) AS n FROM l) AS x WHERE n <= 2",
    "SELECT k, g, t FROM l ORDER BY t, k, g LIMIT 5",
    "SELECT l.k, l.t, r.t AS u FROM l LEFT JOIN r ON l.k = r.k",
)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidegate.Client]:
    """A client for which all texts are wide, and a few bytes are many."""
    left_apart: list[object] = []
    monkeypatch.setattr(
        rows, "scattered", lambda columns: left_apart.append(columns) or scattered_column.scattered(columns)
    )
    monkeypatch.setattr(wide_rows, "WIDE", -1)
    monkeypatch.setattr(wide_rows, "_LEAST", -1)
    monkeypatch.setattr(scattered_column, "_AT_ONCE", 32)
    for module in (arrangement, portions, regroup, window):
        monkeypatch.setattr(module, "TOGETHER", 16)
    monkeypatch.setattr(distinct_or_set_op, "AT_ONCE", 64)
    with tidegate.local(roots=()) as client:
        yield client
    assert left_apart, "no text was left where it was"


@pytest.mark.parametrize(("sql", "sliced"), one_of_each(product(QUERIES, [1, 1 << 40])))
def test_the_answer_is_right(client: tidegate.Client, sql: str, sliced: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered_column, "_SLICED", sliced)
    history = list(_epochs(random.Random(sql)))
    with client.create_task(planned(sql), mode="continuous") as task:
        integral = Integral()
        for number, epoch in enumerate(history, 1):
            splits = {
                name: [changes(epoch[name][at : at + 3], SCHEMA) for at in range(0, len(epoch[name]), 3)]
                for name in task.sources
            }
            integral.add(task.run_epoch(splits).table())
            with oracle({name: total(history[:number], name, SCHEMA) for name in "lr"}) as connection:
                assert integral.rows == multiset(connection.sql(sql).fetchall())


def _epochs(source: random.Random) -> Iterator[dict[str, Changed]]:
    there: dict[str, Counter[tuple[object, ...]]] = {"l": Counter(), "r": Counter()}
    for _ in range(3):
        epoch: dict[str, Changed] = {}
        for name, left in there.items():
            changed = []
            for _ in range(20):
                gone = source.choice(sorted(left.elements(), key=repr)) if left and source.random() < 0.4 else None
                new = (source.randrange(6), source.randrange(3), source.choice(["", "a", "ab", "é" * 9, None]))
                row, weight = (new, 1) if gone is None else (gone, -1)
                left[row] += weight
                left += Counter()
                changed.append((row, weight))
            epoch[name] = changed
        yield epoch


@pytest.mark.parametrize("sliced", [1, 1 << 40], ids=["slices", "gathered"])
def test_scattered_values_are_those_of_one_array(sliced: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered_column, "_SLICED", sliced)
    monkeypatch.setattr(scattered_column, "_AT_ONCE", 64)
    source = np.random.default_rng(1)
    values = [None if source.random() < 0.2 else "a" * int(source.integers(40)) for _ in range(50)]
    scattered = ScatteredColumn([pa.array(values[:7]), pa.array(values[7:8]), pa.array(values[8:])])
    one = ArrowColumn(pa.array(values))
    assert scattered.hashes().tolist() == one.hashes().tolist()
    assert scattered.to_arrow(pa.string()).equals(one.array)
    assert scattered.concat([one]).array.equals(one.concat([one]).array)
    assert np.array_equal(scattered.nulls(), one.nulls())
    at, other = source.integers(50, size=200), source.integers(50, size=200)
    assert np.array_equal(scattered.same(at, scattered, other), one.same(at, one, other))
    for which in (at, at[:1], at[:0], np.arange(50), np.arange(5, 20), source.random(50) < 0.5):
        assert scattered.take(which).array.equals(one.take(which).array)
    for part in (slice(0, 50), slice(3, 9), slice(8, 20), slice(4, 4)):
        assert scattered.take(part).to_arrow(pa.string()).equals(one.take(part).array)
