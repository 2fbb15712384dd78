"""Large record batches of Arrow files, read in parts: the same rows, and no more of the file than a part at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.formats import arrow as arrow_format
from tidegate.operators.sources.formats.format import PartTooLarge, RowTooLarge
from tidegate.operators.sources.formats.ipc import arrow_parts
from tidegate.operators.sources.formats.ipc.arrow_columns import can_be_parted

from ..searching import one_of_each, tries
from .data import pieces_of

ROWS = 200
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
    "null": pa.null(),
    "named": pa.uuid(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "dictionaries": pa.list_(pa.dictionary(pa.int32(), pa.string())),
}
CODECS = (None, "lz4", "zstd")


def values(type_: pa.DataType, rows: int, *, nulls: bool) -> pa.Array:  # noqa: C901
    def value(row: int, of: pa.DataType) -> object:  # noqa: C901 - a line for each type
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
        if kinds.is_null(of):
            return None
        if of == pa.uuid():
            return bytes([row % 251] * 16)
        if kinds.is_dictionary(of):
            return f"{row % 90}"
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


def file_of(*batches: pa.RecordBatch, stream: bool = False, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, batches[0].schema, options=options) as writer:
        for part in batches:
            writer.write_batch(part)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def reader_of(path: Path, **options: object) -> arrow_format.ArrowReader:
    [piece] = pieces_of(path, path.parent, **options)
    assert isinstance(piece, FilePiece)
    return arrow_format.ArrowReader(piece, LocalFileSystem(use_mmap=False), LARGEST)


def read(reader: arrow_format.ArrowReader, indices: Sequence[int]) -> list[pa.RecordBatch]:
    parts, at = [], None
    for first, part in reader.batches(indices):
        part.validate(full=True)
        assert at in (None, first)
        at = first + part.num_rows
        parts.append(part)
    reader.close()
    return parts


BATCHES = {nulls: batch(nulls=nulls) for nulls in (True, False)}
LARGEST = 1 << 20


@pytest.mark.parametrize("nulls", [True, False])
@settings(max_examples=tries(15))
@given(
    rows=st.integers(0, ROWS),
    skipped=st.integers(0, 40),
    at_once=st.integers(1, 6_000),
    stream=st.booleans(),
    codec=st.sampled_from(CODECS),
    data=st.data(),
)
def test_the_parts_are_the_batch(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    skipped: int,
    at_once: int,
    stream: bool,
    codec: str | None,
    nulls: bool,
    data: st.DataObject,
) -> None:
    whole = BATCHES[nulls].slice(skipped, rows)
    path = tmp_path_factory.getbasetemp() / "parts.arrow"
    path.write_bytes(file_of(whole, stream=stream, codec=codec))
    start = 0 if stream else data.draw(st.integers(0, whole.num_rows))
    end = whole.num_rows if stream else data.draw(st.integers(start, whole.num_rows))
    with (
        mock.patch.object(arrow_parts, "BATCH_BYTES", at_once),
        mock.patch.object(arrow_format, "LARGE", 0),
        mock.patch.object(arrow_format, "_MOST_AT_ONCE", 0),
    ):
        parts = read(reader_of(path, rows=None if stream else (start, end)), range(len(whole.schema)))
    assert pa.Table.from_batches(parts, whole.schema) == pa.Table.from_batches([whole.slice(start, end - start)])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_only_the_wanted_columns_are_read(tmp_path: Path, stream: bool, codec: str | None) -> None:
    whole = BATCHES[True]
    path = tmp_path / "some.arrow"
    path.write_bytes(file_of(whole, stream=stream, codec=codec))
    with mock.patch.object(arrow_format, "LARGE", 0), mock.patch.object(arrow_format, "_MOST_AT_ONCE", 0):
        parts = read(reader_of(path), [14, 9, 3])
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([whole.select([14, 9, 3])])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_dictionaries_that_grow_from_batch_to_batch(tmp_path: Path, stream: bool, codec: str | None) -> None:
    texts = [f"{row}" for row in range(31)]
    batches = [
        pa.record_batch({"t": pa.DictionaryArray.from_arrays(pa.array([0, size]), pa.array(texts[: size + 1]))})
        for size in (1, 7, 30)
    ]
    path = tmp_path / "deltas.arrow"
    path.write_bytes(file_of(*batches, stream=stream, codec=codec))
    with mock.patch.object(arrow_format, "LARGE", 0), mock.patch.object(arrow_format, "_MOST_AT_ONCE", 0):
        parts = read(reader_of(path), [0])
    assert [text for part in parts for text in part["t"].to_pylist()] == ["0", "1", "0", "7", "0", "30"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_scan_holds_a_part_of_a_compressed_batch_at_once(tmp_path: Path, stream: bool, codec: str) -> None:
    path = tmp_path / "small.arrow"
    rows = pa.record_batch({"t": ["x" * 100_000] * 1_000, "n": pa.nulls(1_000, pa.int64())})
    path.write_bytes(file_of(rows, stream=stream, codec=codec))
    assert path.stat().st_size < 1 << 20
    reader = reader_of(path)
    before = pa.total_allocated_bytes()
    for _, part in reader.batches([0, 1]):
        assert part.get_total_buffer_size() <= BATCH_BYTES
        assert pa.total_allocated_bytes() - before <= 4 * BATCH_BYTES
    reader.close()


def large(case: str) -> pa.RecordBatch:
    """A batch that cannot be read where a row may have 1 MiB."""
    text = "x" * (30 << 20)
    match case:
        case "row":
            return pa.record_batch({"t": ["a", text, "b"]})
        case "items":
            return pa.record_batch({"l": pa.array([[1], [0] * (8 << 20), []], pa.list_(pa.int32()))})
        case "dictionary":
            return pa.record_batch({"t": pa.DictionaryArray.from_arrays([0, 0], pa.array([text]))})
        case _:
            return pa.record_batch({"t": pa.array(["a", text, "b"], pa.string_view())})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("case", "codec"), one_of_each(product(["row", "items", "dictionary", "views"], CODECS)))
def test_rows_and_parts_beyond_the_limit_are_refused_before_they_are_decoded(
    tmp_path: Path, case: str, codec: str | None, stream: bool
) -> None:
    path = tmp_path / "large.arrow"
    path.write_bytes(file_of(large(case), stream=stream, codec=codec))
    reader = reader_of(path)
    expected = RowTooLarge if case in ("row", "items") else PartTooLarge
    before, pool = pa.total_allocated_bytes(), pa.default_memory_pool()
    with pytest.raises(expected, match="memory_limit is 1,048,576"):
        list(reader.batches([0]))
    assert pool.bytes_allocated() - before <= 2 * BATCH_BYTES
    reader.close()


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_not_wanted_may_be_large(tmp_path: Path, codec: str | None) -> None:
    path = tmp_path / "large.arrow"
    batches = [large(case).column(0) for case in ("dictionary", "row")]
    rows = pa.record_batch([batches[0], batches[1].slice(0, 2), pa.array([7, 8])], names=["d", "t", "n"])
    path.write_bytes(file_of(rows, codec=codec))
    parts = read(reader_of(path), [2])
    assert [number for part in parts for number in part["n"].to_pylist()] == [7, 8]


@pytest.mark.parametrize("stated", [0, 7, -2])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_buffer_that_states_another_length_is_the_files_fault(tmp_path: Path, stated: int, codec: str) -> None:
    content = file_of(pa.record_batch({"n": pa.array([5] * 4_000_000)}), codec=codec)
    path = tmp_path / "lies.arrow"
    length = (32_000_000).to_bytes(8, "little")
    assert content.count(length) == 1
    path.write_bytes(content.replace(length, stated.to_bytes(8, "little", signed=True)))
    reader = reader_of(path)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        list(reader.batches([0]))
    reader.close()


@pytest.mark.parametrize(
    "type_",
    [pa.dictionary(pa.int8(), pa.string_view()), pa.string_view(), pa.list_view(pa.int8()), pa.dense_union([])],
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
    parts = []
    for piece in pieces_of(path, tmp_path):
        assert isinstance(piece, FilePiece)
        reader = arrow_format.ArrowReader(piece, LocalFileSystem(use_mmap=False))
        parts += [part for _, part in reader.batches(range(len(rows.schema)))]
        reader.close()
    assert pa.Table.from_batches(parts, rows.schema) == pa.Table.from_batches([rows] * 10)
