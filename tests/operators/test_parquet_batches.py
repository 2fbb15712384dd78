"""Splits of Parquet files that have many splits: the size of their batches, and what is kept of a file for the next."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import native_obstacle
from tidegate.proto.arrow.parquet_footer import Footer

from .data import column, pieces_of

GROUP = 40_000
NAMES = tuple(f"c{number}" for number in range(20))
COLUMNS = tuple(column(name, pa.float64()) for name in NAMES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of three row groups, each of which takes more than a batch usually does."""
    values = np.arange(3 * GROUP * len(NAMES), dtype=float).reshape(len(NAMES), -1)
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(dict(zip(NAMES, values, strict=True))), path, row_group_size=GROUP)
    return path


def batches_of(path: Path, rows: tuple[int, int] | None, **options: int) -> list[pa.RecordBatch]:
    scan = Scan("t", COLUMNS, **options)  # type: ignore[arg-type]
    scan.assign("t", pieces_of(path, path.parent, COLUMNS, rows))
    return list(scan.run(()))


def test_a_row_group_of_many_comes_as_one_batch(file: Path) -> None:
    [batch] = batches_of(file, (GROUP, 2 * GROUP))
    assert batch.nbytes > BATCH_BYTES
    assert batch.column("c1").to_pylist() == list(range(4 * GROUP, 5 * GROUP))


def test_the_first_rows_of_a_whole_file_come_in_a_small_batch(file: Path) -> None:
    assert batches_of(file, None)[0].nbytes <= BATCH_BYTES


def test_a_task_with_little_memory_gets_small_batches(file: Path) -> None:
    batches = batches_of(file, (GROUP, 2 * GROUP), largest=64 << 20)
    assert max(batch.nbytes for batch in batches) <= BATCH_BYTES
    assert sum(batch.num_rows for batch in batches) == GROUP


def test_a_file_that_is_written_again_has_its_new_rows(file: Path) -> None:
    batches_of(file, (0, GROUP))
    table = pa.table({name: np.full(GROUP, -1.0) for name in reversed(NAMES)})
    pq.write_table(table, file, row_group_size=GROUP // 2)
    assert {value for batch in batches_of(file, (0, GROUP // 2)) for value in batch.column("c3").to_pylist()} == {-1.0}


def test_numbers_of_splits_are_read_in_each_split_that_has_one(file: Path) -> None:
    """DuckDB may read the numbered split; that the other one lacks the column is still seen."""
    columns = (*COLUMNS, column("_row", pa.int64(), nullable=False))
    [numbered] = (
        replace(piece, number=7)
        for piece in pieces_of(file, file.parent, columns, (0, GROUP))
        if isinstance(piece, FilePiece)
    )
    for _ in range(2):
        assert native_obstacle([numbered], columns) is None
        assert "'_row' is missing" in str(native_obstacle([replace(numbered, number=None)], columns))


def test_a_large_footer_is_not_kept_because_no_later_reading_could_use_it(tmp_path: Path) -> None:
    groups, path = 503, tmp_path / "many_groups.parquet"
    pq.write_table(pa.table({name: np.zeros(groups) for name in NAMES}), path, row_group_size=1)
    assert sum(batch.num_rows for batch in batches_of(path, (0, 1))) == 1
    gc.collect()
    footers = [held for held in gc.get_objects() if isinstance(held, Footer)]
    assert [footer for footer in footers if len(footer.groups) == groups] == []
