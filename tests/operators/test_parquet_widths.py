"""Memory of the rows of a Parquet file once they are decoded: small files may stand for gigabytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.file_relations import native_obstacle
from tidegate.operators.sources.formats import parquet_widths
from tidegate.operators.sources.formats.format import PartTooLarge, RowTooLarge
from tidegate.operators.sources.formats.parquet import ParquetReader
from tidegate.operators.sources.formats.parquet_headers import Page, dictionary_page
from tidegate.operators.sources.formats.parquet_rows import cut_by_cost, hadoop_blocks, row_items
from tidegate.proto.arrow.parquet_footer import Chunk, RandomFile, read_footer

from .data import column, pieces_of, scanned, write

ROWS = 200_000
LARGE = "x" * 100_000


def repeated(pattern: list[str | None], rows: int = ROWS) -> pa.Array:
    """Values of a dictionary, again and again, without ever being written out."""
    indices = np.arange(rows, dtype=np.int32) % len(pattern)
    missing = np.array([value is None for value in pattern])[indices]
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=missing), pa.array([value or "" for value in pattern]))


def late(rows: int = ROWS) -> pa.Array:
    """Small values first: only the last half of the rows is large."""
    indices = (np.arange(rows) >= rows // 2).astype(np.int32)
    return pa.DictionaryArray.from_arrays(indices, pa.array(["a", LARGE]))


def lists(rows: int = 20_000, items: int = 50) -> pa.Array:
    offsets = np.arange(rows + 1, dtype=np.int32) * items
    return pa.ListArray.from_arrays(offsets, repeated(["a", LARGE[:50_000]], rows * items))


def nulls(rows: int = ROWS) -> pa.Array:
    return repeated([None, LARGE], rows)


CASES = {"large texts": lambda: repeated([LARGE]), "large texts late": late, "lists": lists, "nulls first": nulls}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_file_that_unfolds_is_decoded_in_batches_of_bounded_bytes(
    tmp_path: Path, case: str, compression: str
) -> None:
    path = tmp_path / "unfolds.parquet"
    pq.write_table(pa.table({"t": CASES[case]()}), path, compression=compression, store_schema=False)
    assert path.stat().st_size < 2_000_000
    asked = [column("t", pa.string())]
    [piece, *_] = pieces_of(path, tmp_path, asked)
    assert isinstance(piece, FilePiece)
    reader = ParquetReader(piece, asked, LocalFileSystem(use_mmap=False))
    before = pa.total_allocated_bytes()
    decoded = reader.batches([0])
    for _ in range(200):
        _, batch = next(decoded)
        assert batch.get_total_buffer_size() <= 2 * BATCH_BYTES
        assert pa.total_allocated_bytes() - before <= 4 * BATCH_BYTES
    decoded.close()
    reader.close()


@pytest.mark.parametrize("case", CASES)
def test_duckdb_does_not_read_a_file_that_unfolds(tmp_path: Path, case: str) -> None:
    path = tmp_path / "unfolds.parquet"
    pq.write_table(pa.table({"t": CASES[case]()}), path, store_schema=False)
    asked = [column("t", pa.list_(pa.string()) if case == "lists" else pa.string())]
    assert "DuckDB reads 2,048 rows at a time" in (native_obstacle(pieces_of(path, tmp_path, asked), asked) or "")


def test_what_the_plan_does_not_read_counts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "unfolds.parquet"
    pq.write_table(pa.table({"k": range(ROWS), "t": late()}), path, store_schema=False)
    asked = [column("k", pa.int64())]
    assert native_obstacle(pieces_of(path, tmp_path, asked), asked) is None


def test_a_dictionary_is_looked_for_once_in_a_file_that_is_opened_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "texts.parquet", pa.table({"t": repeated(["tea", "coffee"], 4_000)}))
    looked_at: list[int] = []

    def noted(file: RandomFile, chunk: Chunk) -> Page | None:
        looked_at.append(chunk.start)
        return dictionary_page(file, chunk)

    monkeypatch.setattr(parquet_widths, "dictionary_page", noted)
    asked = [column("t", pa.string())]
    assert len(scanned(asked, pieces_of(path, tmp_path, asked))) == 4_000
    assert len(looked_at) == len(set(looked_at)) == 4


def test_short_texts_of_a_dictionary_are_read_in_large_batches(tmp_path: Path) -> None:
    path = tmp_path / "short.parquet"
    pq.write_table(pa.table({"t": repeated(["tea", "coffee", None])}), path, store_schema=False)
    asked = [column("t", pa.string())]
    [piece, *_] = pieces_of(path, tmp_path, asked)
    assert isinstance(piece, FilePiece)
    assert native_obstacle([piece], asked) is None
    reader = ParquetReader(piece, asked, LocalFileSystem())
    assert next(reader.batches([0]))[1].num_rows == 65_536
    reader.close()


def list_rows(counts: list[int], *, nested: bool = False) -> pa.Array:
    offsets = np.cumsum([0, *counts]).astype(np.int32)
    items = pa.array(np.zeros(int(offsets[-1]), np.int32))
    inner = pa.ListArray.from_arrays(np.arange(len(items) + 1, dtype=np.int32), items) if nested else items
    return pa.ListArray.from_arrays(offsets, inner)


def reader_of(path: Path, name: str, type_: pa.DataType, largest: int = 64 << 20) -> ParquetReader:
    asked = [column(name, type_)]
    [piece, *_] = pieces_of(path, path.parent, asked)
    assert isinstance(piece, FilePiece)
    return ParquetReader(piece, asked, LocalFileSystem(use_mmap=False), largest)


LISTS = pa.list_(pa.int32())
WRITERS = {
    "first form": {"data_page_version": "1.0"},
    "second form": {"data_page_version": "2.0"},
    "not compressed": {"compression": "none"},
    "gzip": {"compression": "gzip"},
    "lz4": {"compression": "lz4"},
    "old lz4": {"compression": "lz4"},
}


@pytest.mark.parametrize("writer", WRITERS)
@given(
    counts=st.lists(st.sampled_from([0, 1, 2, 9, 700]), min_size=1, max_size=300),
    nested=st.booleans(),
    nulls=st.booleans(),
)
def test_the_items_of_rows_are_counted_by_their_levels(
    writer: str, counts: list[int], nested: bool, nulls: bool
) -> None:
    rows = list_rows(counts, nested=nested)
    if nulls:
        rows = pa.array([None if at % 3 == 1 else row for at, row in enumerate(rows.to_pylist())], rows.type)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"l": rows}), sink, data_page_size=100, write_batch_size=7, **WRITERS[writer])
    data = pa.BufferReader(as_old_lz4(sink.getvalue()) if writer == "old lz4" else sink.getvalue())
    [leaf], [group] = read_footer(data).leaves, read_footer(data).groups
    item_counts = np.concatenate(list(row_items(data, group.chunks[0], leaf.repeats)))
    assert item_counts.tolist() == [max(len(row or ()), 1) for row in rows.to_pylist()]


def as_old_lz4(file: pa.Buffer) -> bytes:
    """The file, with the number of the old codec for LZ4 in its footer, as old versions of Arrow wrote it."""
    data = file.to_pybytes()
    assert data.count(b"\x15\x0e\x16") == 1
    return bytes(data.replace(b"\x15\x0e\x16", b"\x15\x0a\x16"))


@given(parts=st.lists(st.binary(min_size=1, max_size=40).map(lambda part: part * 9), max_size=4), framed=st.booleans())
def test_old_lz4_is_blocks_behind_their_lengths_or_one_block_without(parts: list[bytes], framed: bool) -> None:
    codec, whole = pa.Codec("lz4_raw"), b"".join(parts)
    stored = [codec.compress(part, asbytes=True) for part in (parts if framed else [whole])]
    lengths = [
        len(part).to_bytes(4, "big") + len(block).to_bytes(4, "big") if framed else b""
        for part, block in zip(parts if framed else [whole], stored, strict=True)
    ]
    data = b"".join(length + block for length, block in zip(lengths, stored, strict=True))
    if data:
        blocks = hadoop_blocks(data, len(whole))
        assert b"".join(codec.decompress(block, size, asbytes=True) for block, size in blocks) == whole


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 100), st.integers(1, 20))
def test_runs_of_rows_cost_no_more_than_they_may(costs: list[int], most: int, most_rows: int) -> None:
    blocks = [np.array(costs[at : at + 30], np.int64) for at in range(0, len(costs), 30)]
    at = 0
    for rows, cost in cut_by_cost(blocks, most, most_rows):
        assert cost == sum(costs[at : at + rows])
        assert 1 <= rows <= most_rows
        assert rows == 1 or cost <= most
        at += rows
    assert at == len(costs)


def test_lists_of_which_some_are_long_are_decoded_a_few_rows_at_a_time(tmp_path: Path) -> None:
    counts = [1] * 50_000 + [1_000_000] * 40 + [2] * 50_000
    pq.write_table(pa.table({"l": list_rows(counts)}), tmp_path / "l.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "l.parquet").stat().st_size < 10_000
    reader = reader_of(tmp_path / "l.parquet", "l", LISTS)
    lengths: list[int] = []
    before = pa.total_allocated_bytes()
    for first, batch in reader.batches([0]):
        assert first == len(lengths)
        assert pa.total_allocated_bytes() - before <= 8 * BATCH_BYTES
        lengths += pc.list_value_length(batch["l"]).to_pylist()
    reader.close()
    assert lengths == counts


def test_a_row_with_too_many_items_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    pq.write_table(pa.table({"l": list_rows([1] * 100_000 + [30_000_000])}), tmp_path / "l.parquet", store_schema=False)
    reader = reader_of(tmp_path / "l.parquet", "l", LISTS)
    with pytest.raises(RowTooLarge, match=r"row 100000 of row group 0 .* takes about 480,000,000 bytes"):
        list(reader.batches([0]))
    reader.close()
    asked = [column("l", LISTS)]
    obstacle = native_obstacle(pieces_of(tmp_path / "l.parquet", tmp_path, asked), asked)
    assert "which DuckDB does not bound" in (obstacle or "")


PAGES = {
    "texts": (lambda: pa.array(["x" * 100_000] * 2_000), {"use_dictionary": False}),
    "second form": (lambda: pa.array(["x" * 100_000] * 2_000), {"use_dictionary": False, "data_page_version": "2.0"}),
    "a dictionary": (
        lambda: pa.array([f"{row:06}" + "x" * 100_000 for row in range(2_000)]),
        {"dictionary_pagesize_limit": 1 << 30},
    ),
}


@pytest.mark.parametrize("case", PAGES)
def test_a_page_beyond_the_limit_is_refused_before_it_is_decoded(tmp_path: Path, case: str) -> None:
    make, options = PAGES[case]
    path = tmp_path / "t.parquet"
    large = {"data_page_size": 1 << 30, "write_batch_size": 1 << 20}
    pq.write_table(pa.table({"t": make()}), path, compression="zstd", store_schema=False, **large, **options)
    assert path.stat().st_size < 2_000_000
    reader = reader_of(path, "t", pa.string())
    with pytest.raises(PartTooLarge, match="write smaller pages"):
        list(reader.batches([0]))
    reader.close()
    reader = reader_of(path, "t", pa.string(), 1 << 30)
    assert next(reader.batches([0]))[1]["t"][0].as_py()[-1] == "x"
    reader.close()
    asked = [column("t", pa.string())]
    assert native_obstacle(pieces_of(path, tmp_path, asked), asked) is not None


def test_long_texts_behind_many_short_ones_are_decoded_a_few_at_a_time(tmp_path: Path) -> None:
    texts = ["a"] * 100_000 + ["x" * 100_000] * 1_000
    pq.write_table(
        pa.table({"t": texts}), tmp_path / "t.parquet", compression="zstd", use_dictionary=False, store_schema=False,
        write_batch_size=10, data_page_size=1 << 20,
    )  # fmt: skip
    reader = reader_of(tmp_path / "t.parquet", "t", pa.string())
    before, rows = pa.total_allocated_bytes(), 0
    for _, batch in reader.batches([0]):
        assert pa.total_allocated_bytes() - before <= 12 * BATCH_BYTES
        rows += batch.num_rows
    reader.close()
    assert rows == len(texts)
