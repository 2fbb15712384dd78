"""Row counts from the metadata of Arrow files: what pyarrow finds when it reads them, without reading them."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import PyFileSystem

from tidegate.operators.sources.formats.format import PIECE_ROWS
from tidegate.operators.sources.formats.ipc.arrow_messages import of_file
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import open_pieces
from tidegate.proto.errors import SplitError

from .data import column, expanded, pieces_of, rows_of
from .test_early_close import CountingHandler

SCHEMAS = [
    pa.schema([("x", pa.int64()), ("s", pa.string())]),
    pa.schema([("d", pa.dictionary(pa.int8(), pa.string())), ("l", pa.list_(pa.int32()))]),
    pa.schema([("n", pa.null())]),
    pa.schema([]),
]


def file_of(counts: list[int], schema: pa.Schema, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for count in counts:
            columns = [pa.nulls(count, field.type) for field in schema]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            writer.write_batch(batch if columns else pa.record_batch({"x": range(count)}).select([]))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@given(
    st.lists(st.integers(0, 300), max_size=12),
    st.sampled_from(SCHEMAS),
    st.sampled_from([None, "lz4", "zstd"]),
    st.booleans(),
)
def test_the_counts_are_those_of_the_batches(
    counts: list[int], schema: pa.Schema, compression: str | None, old: bool
) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression, use_legacy_format=old)
    data = pa.BufferReader(file_of(counts, schema, options))
    reader = pa.ipc.open_file(data)
    read = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    assert [message.rows for message in of_file(data)] == read
    assert read == counts


def test_opening_a_file_reads_no_rows(root: Path) -> None:
    path = root / "f.arrow"
    path.write_bytes(file_of([100_000] * 20, SCHEMAS[0]))
    handler = CountingHandler()
    pieces = open_pieces(expanded(path, root), filesystem=PyFileSystem(handler))
    assert sum(piece.row_count or 0 for piece in pieces) == 2_000_000
    assert handler.bytes < 40_000 < path.stat().st_size / 100


def bytes_read_in_pieces(root: Path, batches: int) -> int:
    """What it takes to read a file of so many batches piece by piece, each in a scan of its own."""
    path = root / f"{batches}.arrow"
    path.write_bytes(file_of([PIECE_ROWS] * batches, SCHEMAS[0]))
    pieces = pieces_of(path, root)
    assert len(pieces) == batches
    handler = CountingHandler()
    for piece in pieces:
        scan = Scan("t", (column("x", pa.int64()),), filesystem=PyFileSystem(handler))
        scan.assign("t", [piece])
        assert sum(batch.num_rows for batch in scan.run(())) == PIECE_ROWS
    return handler.bytes


def test_a_file_read_in_many_pieces_is_read_once(root: Path) -> None:
    few, many = (bytes_read_in_pieces(root, batches) for batches in (4, 16))
    assert many < 5 * few


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.data())
def test_a_range_of_rows_is_found_wherever_batches_begin(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    start = data.draw(st.integers(0, total))
    end = data.draw(st.integers(start, total))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.arrow"
        numbers = pa.table({"x": pa.array(range(total), pa.int64())})
        with pa.ipc.new_file(path, numbers.schema) as writer:
            for at, count in zip(accumulate(counts, initial=0), counts, strict=False):
                writer.write_table(numbers.slice(at, count))
        scan = Scan("t", (column("x", pa.int64()),))
        scan.assign("t", pieces_of(path, Path(folder), rows=(start, end)))
        assert [row["x"] for row in rows_of(scan.run(()))] == list(range(start, end))


@pytest.mark.parametrize("damage", [b"\xff" * 16, b"\0" * 64])
def test_damaged_metadata_is_the_files_fault(root: Path, damage: bytes) -> None:
    path = root / "f.arrow"
    content = bytearray(file_of([1_000], SCHEMAS[0]))
    at = content.index(b"\xff\xff\xff\xff", 16) + 8  # the batch's, behind the schema's at 8
    content[at : at + len(damage)] = damage
    path.write_bytes(content)
    with pytest.raises(SplitError, match=r"f\.arrow"):
        pieces_of(path, root)
