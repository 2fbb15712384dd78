"""The footer of a Parquet file, against what pyarrow says of the same file; damaged ones are refused."""

from __future__ import annotations

import datetime as dt
import random
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.arrow.parquet_footer import Footer, comparable, read_footer
from tidegate.proto.arrow.thrift import BINARY, INTEGER, Damaged, list_of, read, struct_of

DAY = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
TABLE = pa.table(
    {
        "number": pa.array([3, None, -5, 7], pa.int64()),
        "small": pa.array([1, 2, -3, 4], pa.int8()),
        "unsigned": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
        "text": ["b", "a", None, "é"],
        "day": pa.array([DAY.date()] * 4, pa.date32()),
        "at": pa.array([DAY] * 4, pa.timestamp("us", "UTC")),
        "money": pa.array([Decimal("1.23"), Decimal("-4.56"), None, Decimal("0.01")], pa.decimal128(20, 2)),
        "real": [1.5, 2.5, 3.5, None],
        "a.b": [1, 2, 3, 4],
        "list": [[1], [], None, [2, 3]],
        "struct": [{"x": 1, "y": ["p"]}] * 4,
    }
)


def written(table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=3, **options)
    return bytes(sink.getvalue())


def footer_of(data: bytes) -> Footer:
    return read_footer(pa.BufferReader(data))


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"version": "1.0"}, {"write_statistics": False}])
def test_a_footer_says_what_pyarrow_says(options: dict[str, Any]) -> None:
    data = written(**options)
    parsed, expected = footer_of(data), pq.read_metadata(pa.BufferReader(data))
    assert [".".join(leaf.path) for leaf in parsed.leaves] == [
        expected.schema.column(i).path for i in range(len(expected.schema))
    ]
    for number, group in enumerate(parsed.groups):
        other = expected.row_group(number)
        assert (group.rows, group.byte_size) == (other.num_rows, other.total_byte_size)
        for at, chunk in enumerate(group.chunks):
            column = other.column(at)
            assert chunk.compressed == column.total_compressed_size
            assert chunk.uncompressed == column.total_uncompressed_size
            assert chunk.has_dictionary == column.has_dictionary_page
            assert chunk.start == (column.dictionary_page_offset or column.data_page_offset)
            assert chunk.nulls == (column.statistics.null_count if column.statistics else None)
            bounds = parsed.bounds(group, at)
            assert (bounds is not None) == bool(column.statistics and column.statistics.has_min_max)


def test_bounds_are_those_of_the_values() -> None:
    data = written(TABLE.slice(0, 3))
    parsed = footer_of(data)
    values = {}
    for name, at in parsed.positions.items():
        bounds = parsed.bounds(parsed.groups[0], at)
        assert bounds is not None
        values[name] = tuple(comparable(bound, parsed.leaves[at], TABLE.schema.field(name).type) for bound in bounds)
    assert values == {
        "number": (-5, 3),
        "small": (-3, 2),
        "unsigned": (1, 3),
        "text": ("a", "b"),
        "day": (DAY.date().toordinal() - dt.date(1970, 1, 1).toordinal(),) * 2,
        "at": (int(DAY.timestamp()) * 1_000_000,) * 2,
        "money": (Decimal("-4.56"), Decimal("1.23")),
        "real": (None, None),
        "a.b": (1, 3),
    }


def test_a_footer_is_read_anew_only_where_its_bytes_or_its_file_differ() -> None:
    long = pa.table({"text": ["x" * 10_000, "y"]})
    data = written(long, compression="none")
    footer = footer_of(data)
    assert footer_of(data) is footer
    assert [group.rows for group in footer_of(written(long.slice(1), compression="none")).groups] == [1]
    length = int.from_bytes(data[-8:-4], "little")
    with pytest.raises(Damaged, match="beyond the end"):
        footer_of(data[-8 - length :])


def test_a_file_without_rows_or_row_groups_has_a_footer() -> None:
    assert sum(group.rows for group in footer_of(written(TABLE.schema.empty_table())).groups) == 0
    assert footer_of(written(pa.table({}))).leaves == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not end as a Parquet file must"),
        (b"PAR1", "does not end as a Parquet file must"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "does not end as a Parquet file must"),
        (b"PAR1" + b"\x15" * 20 + b"\x14\0\0\0PAR1", "ends in the middle of a value"),
    ],
)
def test_what_is_no_footer_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        footer_of(data)


@given(st.integers(0, 1 << 32))
def test_damaged_footers_are_refused_or_read(seed: int) -> None:
    data, rng = bytearray(WHOLE), random.Random(seed)
    footer = int.from_bytes(data[-8:-4], "little")
    for _ in range(rng.choice([1, 2, 8])):
        data[len(data) - 8 - rng.randrange(1, footer)] = rng.randrange(256)
    with suppress(ValueError):
        parsed = footer_of(bytes(data))
        for group in parsed.groups:
            assert len(group.chunks) == len(parsed.leaves)
            for at in range(len(parsed.leaves)):
                parsed.bounds(group, at)


WHOLE = written()


def test_fields_that_are_not_asked_for_are_stepped_over() -> None:
    # 1: i32 5, 2: binary "ab", 3: list<i32> [1, 2], 4: struct {1: true}, 5: map {}, 6: i64 -3
    data = bytes([0x15, 10, 0x18, 2, 0x61, 0x62, 0x19, 0x25, 2, 4, 0x1C, 0x11, 0, 0x1B, 0, 0x16, 5, 0])
    assert read(data, 0, {6: INTEGER}) == ({6: -3}, len(data))
    assert read(data, 0, {2: BINARY, 3: list_of(INTEGER)})[0] == {2: b"ab", 3: [1, 2]}
    assert read(data, 0, {2: INTEGER})[0] == {}  # it is there as another type


def test_depth_and_lengths_are_bounded() -> None:
    with pytest.raises(Damaged, match="nested too deeply"):
        read(b"\x1c" * 1000, 0, {})
    with pytest.raises(Damaged, match="in the middle"):
        read(b"\x18\xff\xff\xff\xff\x0f", 0, {1: BINARY})
    with pytest.raises(Damaged, match="too long"):
        read(b"\x16" + b"\xff" * 12, 0, {1: INTEGER})
    with pytest.raises(Damaged, match="another type"):
        read(b"\x19\x18\x00\x00", 0, {1: list_of(struct_of({}))})
