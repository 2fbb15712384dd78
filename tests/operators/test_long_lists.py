"""Long lists of numbers in a Parquet file are read as they lie there, and have the rows that the file has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.sources.formats import parquet
from tidegate.operators.sources.formats.undecoded import long_lists
from tidegate.operators.sources.formats.undecoded.long_lists import LongLists
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

ROWS = 60
PLAIN = {"compression": "none", "use_dictionary": False}


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns that were read as they lie in the file."""
    names: set[str] = set()

    def noted(*arguments: Any) -> LongLists | None:
        lists = long_lists.long_lists(*arguments)
        if lists is not None:
            names.add(lists.field.name)
        return lists

    monkeypatch.setattr(parquet, "long_lists", noted)
    return names


def lists_of(lengths: list[int], type_: pa.DataType) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.random.default_rng(len(lengths)).integers(0, 1 << 31, offsets[-1])
    is_large = pa.types.is_large_list(type_)
    kind = pa.LargeListArray if is_large else pa.ListArray
    return kind.from_arrays(
        pa.array(offsets, pa.int64() if is_large else pa.int32()), pa.array(values).cast(type_.value_type, safe=False)
    )


def scanned(path: Path, root: Path, table: pa.Table, rows: tuple[int, int] | None = None) -> pa.Table:
    columns = [column(field.name, field.type) for field in table.schema]
    scan = Scan("t", columns)
    scan.assign("t", pieces_of(path, root, columns, rows))
    read = pa.Table.from_batches(list(scan.run(())), scan.schema)
    read.validate(full=True)
    return read


@pytest.mark.parametrize(
    "type_", [pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()], ids=str
)
@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_lists_of_numbers_are_not_decoded(
    root: Path, undecoded: set[str], type_: pa.DataType, make: Callable[[pa.DataType], pa.DataType], version: str
) -> None:
    table = pa.table({"t": lists_of([1_000] * ROWS, make(type_))})
    pq.write_table(table, root / "f.parquet", data_page_version=version, **PLAIN)
    assert scanned(root / "f.parquet", root, table).equals(table)
    assert undecoded == {"t"}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(400, 3_000), min_size=40, max_size=80),
    group=st.integers(30, 80),
    page=st.integers(1_000, 40_000),
    batch=st.integers(1, 2_000),
    bounds=st.tuples(st.integers(0, 80), st.integers(0, 80)),
)
def test_rows_are_those_of_the_file_wherever_pages_and_ranges_end(
    root: Path, lengths: list[int], group: int, page: int, batch: int, bounds: tuple[int, int]
) -> None:
    numbers = pa.array(range(len(lengths)))
    table = pa.table({"n": numbers, "t": lists_of(lengths, pa.list_(pa.int32())), "s": numbers.cast(pa.string())})
    path = root / "f.parquet"
    pq.write_table(table, path, row_group_size=group, data_page_size=page, write_batch_size=batch, **PLAIN)
    first, end = sorted(min(bound, len(lengths)) for bound in bounds)
    assert scanned(path, root, table, (first, end)).equals(table.slice(first, end - first))


def _replaced(lists: pa.Array, value: object) -> pa.Array:
    rows = lists.to_pylist()
    return pa.array([*rows[:7], value, *rows[8:]], lists.type)


@pytest.mark.parametrize(
    "change",
    [
        lambda lists: _replaced(lists, None),
        lambda lists: _replaced(lists, []),
        lambda lists: _replaced(lists, [None, 1]),
        lambda lists: pa.array([[row] for row in lists.to_pylist()]),
        lambda lists: lists.cast(pa.list_(pa.int16()), safe=False),
        lambda lists: pa.array([row[:3] for row in lists.to_pylist()] * 500, lists.type),
    ],
    ids=["null", "empty list", "null in a list", "lists of lists", "small numbers", "short lists"],
)
def test_other_values_are_decoded(root: Path, undecoded: set[str], change: Callable[[pa.Array], pa.Array]) -> None:
    table = pa.table({"t": change(lists_of([1_000] * ROWS, pa.list_(pa.int32())))})
    pq.write_table(table, root / "f.parquet", **PLAIN)
    assert scanned(root / "f.parquet", root, table).equals(table)
    assert not undecoded


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy", "use_dictionary": False},
        {"compression": "none", "use_dictionary": True},
        {**PLAIN, "column_encoding": {"t.list.element": "DELTA_BINARY_PACKED"}},
        {**PLAIN, "write_page_checksum": True},
    ],
    ids=["compressed", "dictionary", "packed", "checksums"],
)
def test_other_pages_are_decoded(root: Path, undecoded: set[str], options: dict[str, Any]) -> None:
    table = pa.table({"t": lists_of([1_000] * ROWS, pa.list_(pa.int32()))})
    pq.write_table(table, root / "f.parquet", **options)
    assert scanned(root / "f.parquet", root, table).equals(table)
    assert not undecoded


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_gives_as_many_rows_or_an_error(root: Path, changes: list[tuple[int, int]]) -> None:
    table = pa.table({"n": range(30), "t": lists_of([600] * 30, pa.list_(pa.int32()))})
    path = root / "f.parquet"
    pq.write_table(table, path, data_page_size=8_000, **PLAIN)
    data = bytearray(path.read_bytes())
    of_headers = [at for at in range(len(data)) if data[at : at + 2] in (b"\x15\x00", b"\x03\xfe")]
    for position, value in changes:
        data[(of_headers[position % len(of_headers)] + position % 64) % len(data)] = value
    path.write_bytes(data)
    with suppress(SplitError):
        assert scanned(path, root, table).num_rows == table.num_rows
