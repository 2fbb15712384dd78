"""Rows in canonical order, against Python's own sort.

Class of bug: a value that a word cannot hold sorted as another one; rows lost or disordered between memory and files.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.core.blocks import BLOCK_ROWS
from tidegate.operators.duckdb.canonical_order import in_canonical_order
from tidegate.operators.duckdb.held import limited_room
from tidegate.proto.arrow.spill_buffer import SpillRoom
from tidegate.proto.errors import ExecutionError

from ..searching import tries

DAY = dt.date(2020, 1, 1)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    pa.int8(): st.integers(-128, 127),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.date32(): st.integers(-400, 400).map(lambda days: DAY + dt.timedelta(days)),
    pa.bool_(): st.booleans(),
    pa.decimal128(6, 2): st.integers(-(10**6) + 1, 10**6 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    pa.float64(): st.sampled_from([0.0, 1.5, -2.0, math.nan, math.inf, -math.inf]),
    pa.string(): st.text(max_size=3),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    columns = [VALUES[type_] | st.none() if draw(st.booleans()) else VALUES[type_] for type_ in types]
    rows = draw(st.lists(st.tuples(*columns), max_size=30))
    schema = pa.schema([(f"c{at}", type_) for at, type_ in enumerate(types)])
    return pa.Table.from_arrays(
        [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)], schema=schema
    )


def key(row: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [_key(value) for value in row]


def _key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return (0, value.encode() if isinstance(value, str) else value)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def put_in_order(table: pa.Table, folder: Path, most: int, batch: int | None = None) -> pa.Table:
    in_order = in_canonical_order(table.to_batches(max_chunksize=batch), table.schema, most, SpillRoom(str(folder)))
    return pa.Table.from_batches(in_order, table.schema)


@given(tables(), st.sampled_from([0, 200, 1 << 20]), st.sampled_from([None, 1, 4]))
@settings(max_examples=tries(100))
def test_rows_come_in_canonical_order_whether_they_spill_or_not(table: pa.Table, most: int, batch: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ordered = put_in_order(table, Path(folder), most, batch)
        assert list(Path(folder).iterdir()) == []
    assert [key(row) for row in rows_of(ordered)] == sorted(key(row) for row in rows_of(table))
    assert ordered.schema == table.schema


def numbers(rows: int) -> pa.Table:
    return pa.table({"a": list(range(rows, 0, -1)), "b": list(range(rows))})


def test_rows_come_in_blocks(tmp_path: Path) -> None:
    ordered = put_in_order(numbers(BLOCK_ROWS + 5), tmp_path, 1 << 30)
    assert [batch.num_rows for batch in ordered.to_batches()] == [BLOCK_ROWS, 5]


def test_files_go_when_the_rows_are_not_read_to_their_end(tmp_path: Path) -> None:
    table = numbers(200_000)
    rows = in_canonical_order(table.to_batches(max_chunksize=50_000), table.schema, 1, SpillRoom(str(tmp_path)))
    next(rows)
    assert len(list(tmp_path.iterdir())) == 4
    rows.close()
    assert list(tmp_path.iterdir()) == []


def test_no_more_is_spilled_than_may_be(tmp_path: Path) -> None:
    def full() -> ExecutionError:
        return ExecutionError("no room", reason="MEMORY_LIMIT")

    table = numbers(10_000)
    with pytest.raises(ExecutionError, match="no room"):
        list(in_canonical_order(table.to_batches(), table.schema, 1, limited_room(str(tmp_path), 1_000, full)))
    assert list(tmp_path.iterdir()) == []


def test_two_that_spill_to_one_folder_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = SpillRoom(str(tmp_path)), SpillRoom(str(tmp_path))
    assert first.path() != second.path()
