"""Tumbling windows of tasks with several channels: each channel makes parts of their groups in arrays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import windows

from .running import SEVERAL

SIZE = 10
Row: TypeAlias = tuple[int | None, int | None, int | None]

TIMES_OF_ROWS = st.one_of(st.none(), st.integers(-40, 40), st.just(10**15))
KEYS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))
ROWS = st.tuples(TIMES_OF_ROWS, KEYS, st.one_of(st.none(), st.integers(-(2**40), 2**40)))


def _tumbling(name: str) -> Any:
    source = sub.read_named_table(name, {"t": sub.i64, "k": sub.i64, "v": sub.i64})
    functions = (sub.f.sum, sub.f.count, sub.f.min, sub.f.max)
    measures = [function(sub.col("v")).alias(str(at)) for at, function in enumerate(functions)]
    return windows.tumbling(source, "t", SIZE, keys=["k"], measures=measures)


JOINED = windows.interval_join(_tumbling("a"), _tumbling("b"), "window_start", keys=["k"]).to_plan()


def _groups(rows: list[Row]) -> Iterator[tuple[Any, ...]]:
    groups: dict[tuple[int, int | None], list[int | None]] = {}
    for time, key, value in rows:
        if time is not None:
            groups.setdefault((time // SIZE * SIZE, key), []).append(value)
    for (start, key), values in groups.items():
        known = [value for value in values if value is not None]
        measures = (sum(known), len(known), min(known), max(known)) if known else (None, 0, None, None)
        yield start, start + SIZE, key, *measures


def _split(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table({name: pa.array(column, pa.int64()) for name, column in zip("tkv", columns, strict=True)})


def _in_splits(rows: list[Row], cut: int) -> list[pa.Table]:
    return [_split(rows[:cut]), _split(rows[cut:])]


def _answer(client: tidegate.Client, plan: Any, splits: dict[str, list[pa.Table]]) -> list[tuple[Any, ...]]:
    with client.create_task(plan, **SEVERAL[2]) as task:
        return [tuple(row.values()) for row in _named(task.run_epoch(splits).table()).to_pylist()]


def _named(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(at) for at in range(table.num_columns)])


@given(rows=st.lists(ROWS, max_size=40), cut=st.integers(0, 40))
def test_windows_of_shares_are_the_windows_of_all_rows(client: tidegate.Client, rows: list[Row], cut: int) -> None:
    answer = _answer(client, _tumbling("a").to_plan(), {"a": _in_splits(rows, cut)})
    assert sorted(answer, key=repr) == sorted(_groups(rows), key=repr)


@given(left=st.lists(ROWS, max_size=30), right=st.lists(ROWS, max_size=30), cut=st.integers(0, 30))
def test_windows_of_two_streams_meet_on_the_channel_of_their_key(
    client: tidegate.Client, left: list[Row], right: list[Row], cut: int
) -> None:
    answer = _answer(client, JOINED, {"a": _in_splits(left, cut), "b": _in_splits(right, cut)})
    pairs = [
        one + other
        for one in _groups(left)
        for other in _groups(right)
        if one[0] == other[0] and one[2] == other[2] is not None
    ]
    assert sorted(answer, key=repr) == sorted(pairs, key=repr)


MANY = 400_000
"""So many rows are worth two channels."""


def _many(seed: int, keys: int) -> pa.Table:
    """Rows of 1,000 windows in no order, some without a time, a key or a value."""
    random = np.random.default_rng(seed)
    columns = {
        "t": random.integers(-5_000, 5_000, MANY),
        "k": random.integers(-keys // 2, keys // 2, MANY),
        "v": random.integers(-(2**40), 2**40, MANY),
    }
    return pa.table({name: pa.array(column, mask=random.random(MANY) < 0.01) for name, column in columns.items()})


def _on_two_channels(client: tidegate.Client, rows: pa.Table) -> pa.Table:
    splits = [rows.slice(at, MANY // 4) for at in range(0, MANY, MANY // 4)]
    with client.create_task(_tumbling("a").to_plan(), channels=2, parallel_threshold_seconds=0) as task:
        return _named(task.run_epoch({"a": splits}).table())


@pytest.mark.parametrize("keys", [6, 60, 2**40], ids=["many parts of a group", "few", "keys far apart"])
def test_windows_of_many_rows_are_put_together_from_parts(client: tidegate.Client, keys: int) -> None:
    rows = _many(1, keys)
    query = """
        SELECT t // 10 - (t % 10 < 0)::BIGINT AS w, w * 10, w * 10 + 10, k, sum(v)::BIGINT, count(v), min(v), max(v)
        FROM rows WHERE t IS NOT NULL GROUP BY w, k
    """
    right = duckdb.sql(f"SELECT * EXCLUDE w FROM ({query})").fetchall()
    answer = [tuple(row.values()) for row in _on_two_channels(client, rows).to_pylist()]
    assert sorted(answer, key=repr) == sorted(right, key=repr)


def test_windows_of_a_channel_come_by_their_times_and_keys(client: tidegate.Client) -> None:
    answer = _on_two_channels(client, _many(2, 60))
    starts, keys = answer.column(0).to_pylist(), answer.column(2).to_pylist()
    marks = [(start, key is not None, key or 0) for start, key in zip(starts, keys, strict=True)]
    assert sum(one > other for one, other in pairwise(marks)) == 1


def test_a_sum_of_parts_that_64_bits_do_not_hold_is_an_error(client: tidegate.Client) -> None:
    rows = _many(3, 6).set_column(2, "v", pa.array([2**62] * MANY))
    with pytest.raises(tidegate.TaskFailed, match="out of range"):
        _on_two_channels(client, rows)


def test_explain_shows_one_exchange_for_each_stream(client: tidegate.Client) -> None:
    text = client.explain(JOINED, channels=2).text
    assert text.count("dense slices, 2 keys of whole numbers: sum, count, min, max") == 2
    assert text.count("final dense slices, 2 keys: sum, count, min, max") == 2
    assert [line.split(": ")[1] for line in text.splitlines() if "exchange" in line and "hash of" in line] == [
        "hash of columns 1",
        "hash of columns 1",
    ]


@pytest.mark.parametrize("key", [sub.string, sub.fp64])
def test_keys_that_are_no_whole_numbers_stay_with_duckdb(client: tidegate.Client, key: Any) -> None:
    source = sub.read_named_table("a", {"t": sub.i64, "k": key})
    counts = windows.tumbling(source, "t", SIZE, keys=["k"], measures=[sub.f.count().alias("n")])
    text = client.explain(counts.to_plan(), channels=2).text
    assert "dense slices" not in text
    assert "partial aggregate, 2 keys: count" in text
