"""A file that is another one than it was, before or while it is read, is `FILE_CHANGED`; no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tidegate.operators.core.piece import FilePiece, Piece
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import InstancePool, InstanceSettings
from tidegate.operators.sources import file_versions
from tidegate.operators.sources.file_relations import FileSource
from tidegate.operators.sources.file_versions import HeldFiles
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import open_pieces
from tidegate.proto.errors import SplitError

from .data import column, expanded, pieces_of, rows_of, scanned

ROWS = 400_000
COLUMNS = [column("x", pa.int64())]
OLD = pa.table({"x": pa.array(range(ROWS), pa.int64())})
NEW = pa.table({"x": pa.array(range(ROWS, 2 * ROWS), pa.int64())})


def write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=50_000, compression="none", use_dictionary=False)
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".json":
            path.write_text("".join(f'{{"x": {value}}}\n' for value in table["x"].to_pylist()))
        case ".orc":
            orc.write_table(table, path, compression="uncompressed", stripe_size=1 << 16)
        case suffix:
            make = pa.ipc.new_stream if suffix == ".arrows" else pa.ipc.new_file
            with make(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=50_000)
    return path


def swap(path: Path, other: Path) -> None:
    """As somebody would who does not want it noticed: with the same size and time."""
    status = path.stat()
    with other.open("r+b") as file:
        file.truncate(status.st_size)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


def read_old(rows: Iterator[pa.RecordBatch]) -> None:
    for batch in rows:
        assert batch["x"][0].as_py() < ROWS, "a row of the other file"


@pytest.fixture
def pool(tmp_path: Path) -> InstancePool:
    return InstancePool(tmp_path / "spill")


def fragment(pool: InstancePool, root: Path, pieces: tuple[Piece, ...]) -> Fragment:
    instance = pool.take(InstanceSettings(memory_limit=1 << 28, roots=(str(root),)))
    schema = pa.schema([("x", pa.int64())])
    files = [FileSource(source="t", relation="t", columns=tuple(COLUMNS))]
    reading = Fragment("SELECT c0 AS x FROM t", schema=schema, instance=instance, files=files, plan_path="read")
    reading.assign("t", pieces)
    return reading


@pytest.mark.parametrize("name", ["f.parquet", "f.arrow", "f.arrows", "f.csv", "f.json", "f.orc"])
def test_a_file_that_is_swapped_while_it_is_scanned_has_changed(name: str, root: Path, tmp_path: Path) -> None:
    path, other = write(root / name, OLD), write(tmp_path / "elsewhere" / name, NEW)
    scan = Scan("t", COLUMNS)
    scan.assign("t", pieces_of(path, root, COLUMNS))
    rows = scan.run(())
    next(rows)
    swap(path, other)
    with pytest.raises(SplitError, match="has changed since its split was accepted") as refused:
        read_old(rows)
    assert refused.value.reason == "FILE_CHANGED"


def test_a_file_that_is_swapped_while_duckdb_reads_it_has_changed(
    root: Path, tmp_path: Path, pool: InstancePool
) -> None:
    path, other = write(root / "f.parquet", OLD), write(tmp_path / "elsewhere" / "f.parquet", NEW)
    reading = fragment(pool, root, pieces_of(path, root, COLUMNS))
    rows = reading.run([])
    next(rows)
    swap(path, other)
    with pytest.raises(SplitError) as refused:
        read_old(rows)
    assert refused.value.reason == "FILE_CHANGED"


def test_a_file_that_is_written_to_while_it_is_read_has_changed(root: Path, pool: InstancePool) -> None:
    path = write(root / "f.parquet", OLD)
    reading = fragment(pool, root, pieces_of(path, root, COLUMNS))
    rows = reading.run([])
    next(rows)
    os.utime(path, ns=(0, 0))
    with pytest.raises(SplitError) as refused:
        list(rows)
    assert refused.value.reason == "FILE_CHANGED"


@pytest.mark.parametrize("at", ["f.parquet", "folder"])
@pytest.mark.parametrize("opened", [False, True])
def test_a_link_in_the_place_of_a_file_or_folder_is_not_followed(
    at: str, opened: bool, root: Path, tmp_path: Path, pool: InstancePool
) -> None:
    path = write(root / "folder" / "f.parquet", OLD)
    pieces: tuple[Piece, ...] = pieces_of(path, root, COLUMNS) if opened else expanded(path, root)
    swapped = path if at == path.name else path.parent
    moved = tmp_path / "outside" / at
    moved.parent.mkdir()
    os.rename(swapped, moved)
    swapped.symlink_to(moved)
    with pytest.raises(SplitError) as refused:
        scanned(COLUMNS, open_pieces(pieces, COLUMNS))
    assert refused.value.reason == "FILE_CHANGED"
    if opened:
        with pytest.raises(SplitError) as refused:
            rows_of(fragment(pool, root, pieces).run([]))
        assert refused.value.reason == "FILE_CHANGED"


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(root: Path) -> None:
    path = write(root / "f.parquet", OLD)
    pieces = pieces_of(path, root, COLUMNS)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SplitError) as refused:
        scanned(COLUMNS, pieces)
    assert refused.value.reason == "FILE_CHANGED"


def test_descriptors_are_given_back_and_lead_to_other_files_later(root: Path, pool: InstancePool) -> None:
    """DuckDB keeps nothing by the name of a descriptor, which is another file's in the next epoch."""
    paths = [write(root / f"{n}.parquet", table) for n, table in enumerate((OLD, NEW))]
    reading = fragment(pool, root, pieces_of(paths[0], root, COLUMNS))
    before = os.listdir("/proc/self/fd")
    for n in (0, 1, 0):
        reading.assign("t", pieces_of(paths[n], root, COLUMNS))
        assert pa.Table.from_batches(reading.run([])).equals((OLD, NEW)[n])
    rows = reading.run([])
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_beyond_the_descriptors_that_may_be_held_files_are_compared_by_path(
    root: Path, tmp_path: Path, pool: InstancePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_versions, "_HELD", 1 << 40)
    path, other = write(root / "f.parquet", OLD), write(tmp_path / "elsewhere" / "f.parquet", NEW)
    pieces = pieces_of(path, root, COLUMNS)
    [piece] = [piece_ for piece_ in pieces[:1] if isinstance(piece_, FilePiece)]
    with HeldFiles([piece]) as held:
        assert held.paths == {str(path): str(path)}
    rows = fragment(pool, root, pieces).run([])
    next(rows)
    swap(path, other)
    with pytest.raises(SplitError) as refused:
        list(rows)
    assert refused.value.reason == "FILE_CHANGED"
