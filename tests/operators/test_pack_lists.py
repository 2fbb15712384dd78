"""Lists are packed first fit, one list at a time, within windows that do not depend on the input's batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.pack_lists import PackLists
from tidegate.proto.arrow import first_fit
from tidegate.proto.errors import ExecutionError
from tidegate.testing import check_operator

Rows = list[tuple[list[int], list[int], list[int]]]

ITEMS = pa.list_(pa.int64())
PACKED = pa.schema([("tokens", ITEMS), ("segment", pa.list_(pa.int32())), ("position", pa.list_(pa.int32()))])


def packing(schema: pa.Schema, length: int, window_rows: int, padding: int = 0, memory: int = 1 << 30) -> PackLists:
    return PackLists(schema, length=length, padding=padding, window_rows=window_rows, schema=PACKED, memory=memory)


def plainly(lists: list[list[int]], length: int, window_rows: int, padding: int = 0) -> Rows:
    """First fit, one list at a time."""
    packed: Rows = []
    for first in range(0, len(lists), window_rows):
        window: Rows = []
        for tokens in lists[first : first + window_rows]:
            for start in range(0, len(tokens), length):
                part = tokens[start : start + length]
                row = next((row for row in window if len(row[0]) + len(part) <= length), None)
                if row is None:
                    window.append(row := ([], [], []))
                number = row[1][-1] + 1 if row[1] else 1
                row[0].extend(part)
                row[1].extend([number] * len(part))
                row[2].extend(range(len(part)))
        for tokens, segments, positions in window:
            rest = length - len(tokens)
            packed.append(([*tokens, *[padding] * rest], [*segments, *[0] * rest], [*positions, *[0] * rest]))
    return packed


def table_of(rows: Rows) -> pa.Table:
    return pa.table(dict(zip(PACKED.names, zip(*rows, strict=True) if rows else ([], [], []), strict=True)), PACKED)


LISTS = [[number * 10 + at for at in range(number % 6)] for number in range(1, 24)]


def test_it_keeps_the_contract_of_operators() -> None:
    rows = pa.table({"tokens": pa.array(LISTS, ITEMS)})
    check_operator(
        lambda: packing(rows.schema, 4, 5),
        epochs=[[rows], [rows.slice(3, 9)]],
        expected=[table_of(plainly(LISTS, 4, 5)), table_of(plainly(LISTS[3:12], 4, 5))],
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), max_size=9), max_size=20), st.integers(1, 8), st.integers(1, 9), st.data())
def test_rows_are_those_of_one_list_at_a_time(
    lists: list[list[int]], length: int, window_rows: int, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([ITEMS, pa.large_list(pa.int64()), pa.list_view(pa.int64())]))
    rows = pa.table({"tokens": pa.array([[7], *lists], kind)}).slice(1)
    batches = rows.to_batches(max_chunksize=data.draw(st.integers(1, 6)))
    packed = pa.Table.from_batches(
        packing(rows.schema, length, window_rows, -1).run([BatchStream(rows.schema, batches)]), PACKED
    )
    assert packed.equals(table_of(plainly(lists, length, window_rows, -1)))


@pytest.mark.parametrize(
    ("lists", "named"), [([[1], None], "a list that is null"), ([[1, None]], "a list with a null")]
)
def test_nulls_cannot_be_packed(lists: list[list[int | None] | None], named: str) -> None:
    rows = pa.table({"tokens": pa.array(lists, ITEMS)})
    stream = BatchStream(rows.schema, rows.to_batches())
    with pytest.raises(tidegate.ExecutionError, match=named) as refused:
        list(packing(rows.schema, 4, 5).run([stream]))
    assert refused.value.reason == "NULL_TOKENS"


@pytest.mark.parametrize(("rows", "tokens", "length"), [(20, 5_000, 64), (50_000, 1, 8), (1, 100_000, 1)])
def test_a_window_beyond_a_quarter_of_the_memory_is_refused_before_it_is_packed(
    rows: int, tokens: int, length: int
) -> None:
    """Many items, many lists, or a list that is cut into many."""
    table = pa.table({"tokens": pa.array([[7] * tokens] * rows, ITEMS)})
    operator = packing(table.schema, length, 1 << 20, memory=2 << 20)
    with pytest.raises(ExecutionError, match="rows of a window of 1,048,576 take") as refused:
        list(operator.run([BatchStream(table.schema, table.to_batches())]))
    assert refused.value.reason == "MEMORY_LIMIT"


def test_rows_are_made_a_few_at_a_time() -> None:
    table = pa.table({"tokens": pa.array([[7] * 1_000] * 1_000, ITEMS)})
    batches = list(packing(table.schema, 1_000, 1_000).run([BatchStream(table.schema, table.to_batches())]))
    assert max(batch.num_rows for batch in batches) == 262
    assert sum(batch.num_rows for batch in batches) == 1_000


def test_every_look_is_after_few_open_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of one item, and lists of two that each open a row which stays open."""
    monkeypatch.setattr(first_fit, "_LOOK_EVERY", 10_000)
    monkeypatch.setattr(first_fit, "_READ_AT_ONCE", 1)
    looks: list[int] = []
    lengths = np.array([*[2] * 1_000, 1], np.int64)
    first_fit.FirstFit(np.zeros(2_001), np.cumsum(lengths) - lengths, lengths, 3, 0, lambda: looks.append(1))
    assert 40 <= len(looks) <= 60
