"""Texts of Parquet files that are written without the beginnings that they share: a few bytes may be gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from tidegate.operators.arrays.packed_numbers import packed, unpacked
from tidegate.operators.core.column import Column
from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.file_relations import native_obstacle
from tidegate.operators.sources.formats.format import PartTooLarge
from tidegate.operators.sources.formats.parquet import ParquetReader
from tidegate.operators.sources.formats.parquet_headers import pages
from tidegate.operators.sources.formats.parquet_rows import page_values, unfolded_bytes
from tidegate.proto.arrow.parquet_footer import read_footer
from tidegate.proto.arrow.thrift import Damaged
from tidegate.proto.encoding.wire_format import varint
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

WIDTH = 20_000
SHARED = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", "store_schema": False}
WRITERS: dict[str, dict[str, Any]] = {
    "first form": {"data_page_version": "1.0", "compression": "snappy"},
    "second form": {"data_page_version": "2.0", "compression": "zstd"},
    "not compressed": {"compression": "none"},
    "second form, not compressed": {"data_page_version": "2.0", "compression": "none"},
}
writers = pytest.mark.parametrize("writer", WRITERS)


def written(values: pa.Array, encoding: str, nullable: bool, **options: Any) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    schema = pa.schema([pa.field("v", values.type, nullable)])
    pq.write_table(
        pa.table([values], schema=schema), sink, use_dictionary=False, column_encoding=encoding, store_schema=False,
        **options,
    )  # fmt: skip
    return pa.BufferReader(sink.getvalue())


@writers
@given(
    values=st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=400),
    copies=st.sampled_from([1, 3, 700]),
)
def test_packed_numbers_are_those_that_pyarrow_wrote(writer: str, values: list[int], copies: int) -> None:
    column_values = pa.array(values * copies, pa.int64())
    data = written(column_values, "DELTA_BINARY_PACKED", False, **WRITERS[writer])
    footer = read_footer(data)
    [leaf], read = footer.leaves, list[int]()
    for group in footer.groups:
        for page in pages(data, group.chunks[0]):
            bytes_ = page_values(data, group.chunks[0], leaf, page)
            of_page = packed(bytes_, 0, page.values)
            assert of_page.end == len(bytes_)
            read += unpacked(bytes_, of_page).tolist()
    assert read == column_values.to_pylist()


beginnings = st.sampled_from(["", "a", "ab", "shared by some ", "x" * 3_000])
values_of = st.lists(st.tuples(beginnings, st.text("ab", max_size=3)).map("".join), min_size=1, max_size=60)


@writers
@given(values=values_of, nullable=st.booleans(), in_lists=st.booleans())
def test_texts_count_as_the_longest_one_of_their_page(
    writer: str, values: list[str], nullable: bool, in_lists: bool
) -> None:
    texts: list[str | None] = list(values)
    if nullable:
        texts[::3] = [None] * len(texts[::3])
    rows = pa.array([[text, text] for text in texts], pa.list_(pa.string())) if in_lists else pa.array(texts, "string")
    small_pages = {"data_page_size": 500, "write_batch_size": 7}
    data = written(rows, "DELTA_BYTE_ARRAY", nullable, **WRITERS[writer], **small_pages)
    footer = read_footer(data)
    [leaf], [group] = footer.leaves, footer.groups
    items = [text for text in texts for _ in range(2)] if in_lists else texts
    at = 0
    for page in pages(data, group.chunks[0]):
        assert page.shares
        longest = max(len(text or "") for text in items[at : at + page.values])
        assert unfolded_bytes(data, group.chunks[0], leaf, page) == longest * page.values
        at += page.values
    assert at == len(items)


@given(st.binary(max_size=300))
def test_any_bytes_are_numbers_or_damaged(data: bytes) -> None:
    try:
        of_page = packed(data, 0, 1_000)
    except Damaged:
        return
    assert len(unpacked(data, of_page)) == of_page.count <= 1_000
    assert of_page.end <= len(data)


def equal(rows: int = 5_000) -> pa.Array:
    return pa.array(["x" * WIDTH] * rows)


def late() -> pa.Array:
    return pa.concat_arrays([pa.array(["a"] * 100_000), equal()])


def in_lists() -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(0, 5_001, 5), pa.int32()), equal())


CASES = {"equal": equal, "short ones first": late, "lists": in_lists}
FORMS = {"zstd": WRITERS["second form"], "none": WRITERS["not compressed"]}


def unfolding(folder: Path, case: str, form: str) -> tuple[Path, pa.DataType]:
    path, rows = folder / "unfolds.parquet", CASES[case]()
    pq.write_table(pa.table({"t": rows}), path, **SHARED, **FORMS[form])
    assert path.stat().st_size < 200_000
    return path, rows.type


def test_a_number_of_more_than_64_bits_is_damaged() -> None:
    with pytest.raises(Damaged, match="too long"):
        packed(b"\xff" * 1_000_000, 0, 10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_texts_that_share_beginnings_are_decoded_in_batches_of_bounded_bytes(
    tmp_path: Path, case: str, form: str
) -> None:
    path, type_ = unfolding(tmp_path, case, form)
    asked = [column("t", type_)]
    [piece, *_] = pieces_of(path, tmp_path, asked)
    assert isinstance(piece, FilePiece)
    assert native_obstacle([piece], asked) is not None
    reader = ParquetReader(piece, asked, LocalFileSystem(use_mmap=False), 64 << 20)
    before, rows = pa.total_allocated_bytes(), 0
    for _, batch in reader.batches([0]):
        assert pa.total_allocated_bytes() - before <= 8 * BATCH_BYTES
        rows += batch.num_rows
    reader.close()
    assert rows == pq.read_metadata(path).num_rows


def test_duckdb_does_not_unfold_a_page_of_many_short_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": ["x" * 400] * 500_000}), path, max_rows_per_page=1 << 20, **SHARED)
    asked = [column("t", pa.string())]
    assert "which DuckDB does not bound" in (native_obstacle(pieces_of(path, tmp_path, asked), asked) or "")


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_lengths_of_a_page_that_take_more_than_there_is_room_for_are_refused(tmp_path: Path, encoding: str) -> None:
    path, rows, empty = tmp_path / "t.parquet", 20_000_000, pa.py_buffer(bytes(80_000_004))
    options = {**SHARED, "column_encoding": encoding, "max_rows_per_page": rows, "row_group_size": rows}
    pq.write_table(pa.table({"t": pa.StringArray.from_buffers(rows, empty, pa.py_buffer(b""))}), path, **options)
    assert path.stat().st_size < 2_000_000
    asked = [column("t", pa.string())]
    [piece, *_] = pieces_of(path, tmp_path, asked)
    assert isinstance(piece, FilePiece)
    reader = ParquetReader(piece, asked, LocalFileSystem(use_mmap=False), 1 << 20)
    with pytest.raises(PartTooLarge, match="write smaller pages"):
        next(reader.batches([0]))
    reader.close()


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize("rows", [3_000, 3_000_000])
def test_a_page_with_more_lengths_than_values_is_damaged(tmp_path: Path, encoding: str, rows: int) -> None:
    path = tmp_path / "t.parquet"
    whole = {"max_rows_per_page": rows, "row_group_size": rows, "data_page_size": 1 << 30, "write_statistics": False}
    options = {**SHARED, "column_encoding": encoding, "compression": "none", **whole}
    pq.write_table(pa.table({"t": ["a"] * rows}), path, **options)
    data = bytearray(path.read_bytes())
    [group] = read_footer(pa.BufferReader(data)).groups
    [page] = pages(pa.BufferReader(data), group.chunks[0])
    at = data.index(varint(rows), page.at)
    most = varint((1 << 7 * len(varint(rows))) - 1)
    path.write_bytes(data[:at] + most + data[at + len(most) :])
    asked = [column("t", pa.string())]
    before = pa.total_allocated_bytes()
    with pytest.raises((SplitError, Damaged), match=f"a page of {rows:,} values has [0-9,]+ lengths"):
        first_batch(path, asked)
    assert pa.total_allocated_bytes() - before <= 8 * BATCH_BYTES


def first_batch(path: Path, asked: list[Column]) -> pa.RecordBatch:
    """The first batch of a file that DuckDB does not read."""
    [piece, *_] = pieces_of(path, path.parent, asked)
    assert isinstance(piece, FilePiece)
    assert native_obstacle([piece], asked) is not None
    return next(ParquetReader(piece, asked, LocalFileSystem(use_mmap=False), 64 << 20).batches([0]))[1]


def test_duckdb_reads_short_texts_that_share_little(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": [f"item {number}" for number in range(50_000)]}), path, **SHARED)
    asked = [column("t", pa.string())]
    assert native_obstacle(pieces_of(path, tmp_path, asked), asked) is None
