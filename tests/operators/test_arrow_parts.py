"""Large record batches of Arrow files, read in parts: the same rows, and no more of the file than a part at once."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.formats import arrow as arrow_format
from tidegate.operators.sources.formats import arrow_parts
from tidegate.operators.sources.formats.arrow_messages import of_file, of_stream
from tidegate.operators.sources.formats.arrow_parts import LargeBatch, can_be_parted

from .data import pieces_of

ROWS = 700
TYPES = {
    "whole": pa.int32(),
    "bits": pa.bool_(),
    "decimal": pa.decimal128(30, 3),
    "time": pa.timestamp("us", "UTC"),
    "fixed": pa.binary(3),
    "text": pa.string(),
    "bytes": pa.large_binary(),
    "list": pa.list_(pa.string()),
    "lists": pa.large_list(pa.list_(pa.int8())),
    "pair": pa.list_(pa.int16(), 2),
    "struct": pa.struct([("a", pa.string()), ("b", pa.list_(pa.bool_()))]),
    "map": pa.map_(pa.string(), pa.int64()),
}


def values(type_: pa.DataType, rows: int, *, nulls: bool) -> pa.Array:
    def value(row: int, of: pa.DataType) -> object:
        kinds = pa.types
        if nulls and row % 5 == 3:
            return None
        if kinds.is_list(of) or kinds.is_large_list(of):
            return [value(row + at, of.value_type) for at in range(row % 4)]
        if kinds.is_fixed_size_list(of):
            return [value(row + at, of.value_type) for at in range(of.list_size)]
        if kinds.is_struct(of):
            return {field.name: value(row + 1, field.type) for field in of}
        if kinds.is_map(of):
            return [(f"k{at}", value(row + at, of.item_type)) for at in range(row % 3)]
        if kinds.is_boolean(of):
            return row % 3 == 0
        if kinds.is_fixed_size_binary(of):
            return bytes([row % 251] * of.byte_width)
        if kinds.is_string(of):
            return "é" * (row % 7)
        if kinds.is_large_binary(of):
            return b"x" * (row % 300)
        return pc.cast(pa.scalar(row % 100), of).as_py()

    return pa.array([value(row, type_) for row in range(rows)], type_)


def batch(rows: int = ROWS, *, nulls: bool = True) -> pa.RecordBatch:
    return pa.record_batch({name: values(type_, rows, nulls=nulls) for name, type_ in TYPES.items()})


def file_of(rows: pa.RecordBatch, *, stream: bool = False) -> bytes:
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


BATCHES = {nulls: batch(nulls=nulls) for nulls in (True, False)}


@pytest.mark.parametrize("nulls", [True, False])
@given(rows=st.integers(0, ROWS), skipped=st.integers(0, 40), at_once=st.integers(1, 20_000), stream=st.booleans())
def test_the_parts_are_the_batch(rows: int, skipped: int, at_once: int, stream: bool, nulls: bool) -> None:
    whole = BATCHES[nulls].slice(skipped, rows)
    data = pa.BufferReader(file_of(whole, stream=stream))
    [message] = of_stream(data) if stream else of_file(data)
    with mock.patch.object(arrow_parts, "BATCH_BYTES", at_once):
        found = list(LargeBatch(data, message, whole.schema, range(len(whole.schema))).parts())
    for part in found:
        part.validate(full=True)
    assert pa.Table.from_batches(found, whole.schema) == pa.Table.from_batches([whole])


def test_only_the_wanted_columns_are_read() -> None:
    whole = BATCHES[True]
    data = pa.BufferReader(file_of(whole))
    [message] = of_file(data)
    found = LargeBatch(data, message, whole.schema, [9, 3]).parts()
    assert pa.Table.from_batches(found) == pa.Table.from_batches([whole.select([9, 3])])


@pytest.mark.parametrize("stream", [False, True])
def test_a_scan_holds_a_part_of_a_large_batch_at_once(tmp_path: Path, stream: bool) -> None:
    image = "x" * 1_000_000
    path = tmp_path / "large.arrow"
    path.write_bytes(file_of(pa.record_batch({"n": list(range(100)), "t": [image] * 100}), stream=stream))
    [piece] = pieces_of(path, tmp_path)
    assert isinstance(piece, FilePiece)
    reader = arrow_format.ArrowReader(piece, LocalFileSystem(use_mmap=False))
    before = pa.total_allocated_bytes()
    numbers = []
    for first, part in reader.batches([0, 1]):
        assert part.get_total_buffer_size() <= BATCH_BYTES
        assert pa.total_allocated_bytes() - before <= 2 * BATCH_BYTES
        numbers += part.column(0).to_pylist()
        assert numbers[first:] == part.column(0).to_pylist()
    reader.close()
    assert numbers == list(range(100))


@pytest.mark.parametrize(
    "type_", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.null(), pa.dense_union([])]
)
def test_types_whose_values_lie_elsewhere_are_read_as_a_whole(type_: pa.DataType) -> None:
    assert not can_be_parted(type_)
    assert not can_be_parted(pa.list_(type_))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("large", [1, 50_000], ids=["parts", "whole"])
def test_a_large_file_of_several_batches_has_their_rows(
    tmp_path: Path, stream: bool, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a batch of it is large or none is."""
    rows = batch(50)
    path = tmp_path / "several.arrow"
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, rows.schema) as writer:
        for _ in range(10):
            writer.write_batch(rows)
    monkeypatch.setattr(arrow_format, "LARGE", large)
    assert path.stat().st_size > large
    found = []
    for piece in pieces_of(path, tmp_path):
        assert isinstance(piece, FilePiece)
        reader = arrow_format.ArrowReader(piece, LocalFileSystem(use_mmap=False))
        found += [part for _, part in reader.batches(range(len(rows.schema)))]
        reader.close()
    assert pa.Table.from_batches(found, rows.schema) == pa.Table.from_batches([rows] * 10)
