"""The index over an Arrow table in memory."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.hashing import SETTLED_BYTES, hash_columns, one_to_one
from tidegate.operators.indexes import arrow_index as arrow
from tidegate.operators.indexes.arrow_index import ArrowIndex
from tidegate.proto.errors import ExecutionError, InternalError

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-1, 0, 1]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1]),
    "float32": (pa.float32(), [0.5, math.inf, -1.0]),
    "decimal128": (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("123456789012345678.90")]),
    "decimal256": (pa.decimal256(50, 0), [Decimal(10) ** 40, Decimal(1)]),
    "date": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1900, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
    "time": (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0)]),
    "text": (pa.string(), ["", "a", "ab", "a" * 100]),
    "large text": (pa.large_string(), ["", "a", "b"]),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\0"]),
    "fixed bytes": (pa.binary(2), [b"ab", b"ba"]),
    "uuid": (pa.uuid(), [bytes(range(16)), bytes(16)]),
}


def numbered(keys: pa.Array) -> pa.Table:
    return pa.table({"k": keys, "n": range(len(keys))})


def index_over(table: pa.Table, *keys: str) -> ArrowIndex:
    return ArrowIndex("t", table, keys=[table.column_names.index(k) for k in keys], columns=[table.num_columns - 1])


def matches_of(index: ArrowIndex, *keys: pa.Array) -> list[tuple[int, int]]:
    """(key's row, row of the table) of every match."""
    matches = index.lookup(pa.record_batch(list(keys), names=[f"k{i}" for i in range(len(keys))]))
    return list(zip(matches.rows.tolist(), matches.columns.column(0).to_pylist(), strict=True))


def array_of(type_: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(type_, pa.UuidType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, pa.binary(16)))
    return pa.array(values, type_)


@pytest.mark.parametrize("name", VALUES)
def test_keys_of_every_type_find_their_rows(name: str) -> None:
    type_, values = VALUES[name]
    table = numbered(array_of(type_, [*values, None, *values]))
    expected = [(i, position) for i in range(len(values)) for position in (i, i + len(values) + 1)]
    assert matches_of(index_over(table, "k"), array_of(type_, values)) == expected


def test_floats_are_equal_as_a_join_has_it() -> None:
    index = index_over(numbered(pa.array([0.0, -0.0, math.nan, 1.0])), "k")
    assert matches_of(index, pa.array([-0.0, math.nan])) == [(0, 0), (0, 1), (1, 2)]


def test_many_matches_come_in_the_tables_order() -> None:
    keys = np.random.default_rng(1).integers(0, 10, 10_000)
    expected = [(0, int(position)) for position in np.flatnonzero(keys == 3)]
    assert matches_of(index_over(numbered(pa.array(keys)), "k"), pa.array([3])) == expected


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "hash_columns", lambda columns: np.full(len(columns[0]), 2**64 - 1, np.uint64))
    a, b, c, longer = "a" * 9, "b" * 9, "c" * 9, "b" * 10
    index = index_over(numbered(pa.array([a, b, a, longer])), "k")
    assert matches_of(index, pa.array([b, a, c])) == [(0, 1), (1, 0), (1, 2)]


@given(st.sets(st.binary(max_size=SETTLED_BYTES), min_size=2))
def test_short_texts_of_one_length_and_hash_are_equal(texts: set[bytes]) -> None:
    hashes = hash_columns([pa.array(texts, pa.binary())]).tolist()
    assert len(set(zip(hashes, map(len, texts), strict=True))) == len(texts)


def test_a_key_that_is_given_back_is_as_the_table_has_it() -> None:
    table = pa.table({"k": pa.array([0.0, 1.0]), "n": pa.array([1, 2])})
    index = ArrowIndex("t", table, keys=[0, 1], columns=[1, 0])
    columns = index.lookup(pa.record_batch({"k0": [1.0, -0.0], "k1": [2, 1]})).columns
    assert [str(value) for value in columns["k"].to_pylist()] == ["1.0", "0.0"]
    assert columns["n"].to_pylist() == [2, 1]


def test_hashes_that_crowd_together_are_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "hash_columns", lambda columns: columns[0].to_numpy().astype(np.uint64))
    index = index_over(numbered(pa.array(range(0, 2_000, 2))), "k")
    assert matches_of(index, pa.array([1_998, 1, 0, 5_000])) == [(0, 999), (2, 0)]


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [(pa.int64(), -(2**63), 2**63 - 1), (pa.uint64(), 0, 2**64 - 1), (pa.int8(), -128, 127), (pa.bool_(), 0, 1)],
)
def test_no_two_keys_of_one_word_have_one_hash(type_: pa.DataType, low: int, high: int) -> None:
    assert one_to_one(type_)
    values = sorted({*range(low, min(low + 5_000, high + 1)), *range(max(low, high - 5_000), high + 1)})
    assert len(np.unique(hash_columns([pa.array(values, pa.uint64() if low == 0 else pa.int64()).cast(type_)]))) == len(
        values
    )


@pytest.mark.parametrize("type_", [pa.string(), pa.float64(), pa.decimal128(20, 2), pa.timestamp("ns"), pa.date64()])
def test_keys_that_may_share_a_hash_are_known(type_: pa.DataType) -> None:
    assert not one_to_one(type_)


def test_a_table_in_several_chunks_is_one() -> None:
    table = pa.concat_tables([pa.table({"k": ["a", "b"], "n": [0, 1]}), pa.table({"k": ["a"], "n": [2]})])
    assert matches_of(index_over(table, "k"), pa.array(["a"])) == [(0, 0), (0, 2)]


def test_keys_that_are_slices_are_read_where_they_lie() -> None:
    index = index_over(numbered(pa.array(["a", "b", "c"]).slice(1)), "k")
    assert matches_of(index, pa.array(["x", "c", "b"]).slice(1)) == [(0, 1), (1, 0)]


def test_rows_cannot_be_looked_up_by_lists() -> None:
    with pytest.raises(ExecutionError, match="index 't': rows cannot be looked up by column 'k' of type list"):
        index_over(numbered(pa.array([[1], [2]])), "k")


def test_an_index_has_a_key() -> None:
    with pytest.raises(InternalError, match="index 't' has no key"):
        index_over(numbered(pa.array([1])))
