"""What rows of a Parquet file take once they are decoded: small files may stand for gigabytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.file_relations import native_obstacle
from tidegate.operators.sources.formats.parquet import ParquetReader

from .data import column, pieces_of

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


def lists(rows: int = 20_000, each: int = 50) -> pa.Array:
    offsets = np.arange(rows + 1, dtype=np.int32) * each
    return pa.ListArray.from_arrays(offsets, repeated(["a", LARGE[:50_000]], rows * each))


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
    found = reader.batches([0])
    for _ in range(200):
        _, batch = next(found)
        assert batch.get_total_buffer_size() <= 2 * BATCH_BYTES
        assert pa.total_allocated_bytes() - before <= 4 * BATCH_BYTES
    found.close()
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
