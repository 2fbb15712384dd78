"""The index over Parquet files."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.operators.core.piece import Piece
from tidegate.operators.duckdb.duckdb_calls import Engine
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.indexes.file import FileIndex
from tidegate.proto.errors import ExecutionError, SplitError

from ..data import column, pieces_of, write

KEY, NUMBER = column("k", pa.string()), column("n", pa.int64())


def over(pieces: tuple[Piece, ...], instance: Instance) -> FileIndex:
    return FileIndex("f", pieces, keys=[KEY], columns=[NUMBER], instance=instance)


def numbers(index: FileIndex, key: str) -> list[int]:
    numbers_there: list[int] = index.lookup(pa.record_batch({"k0": [key]})).columns.column(0).to_pylist()
    return numbers_there


def test_matches_come_in_the_order_of_files_and_rows(root: Path, instance: Instance) -> None:
    for name, start in (("b", 0), ("a", 100), ("c", 200)):
        table = pa.table({"k": ["x", "y"] * 50, "n": range(start, start + 100)})
        write(root / "t" / f"{name}.parquet", table, row_group_size=7)
    assert numbers(over(pieces_of(root / "t", root), instance), "y") == [
        *range(101, 200, 2), *range(1, 100, 2), *range(201, 300, 2)
    ]  # fmt: skip


def test_parts_of_files_keep_their_order(root: Path, instance: Instance) -> None:
    file = write(root / "t.parquet", pa.table({"k": ["x"] * 100, "n": range(100)}), row_group_size=10)
    pieces = (*pieces_of(file, root, rows=(90, 95)), *pieces_of(file, root, rows=(3, 6)))
    assert numbers(over(pieces, instance), "x") == [90, 91, 92, 93, 94, 3, 4, 5]


def test_a_file_that_changes_is_an_error(root: Path, instance: Instance) -> None:
    file = write(root / "t.parquet", pa.table({"k": ["x"], "n": [1]}))
    index = over(pieces_of(file, root), instance)
    write(file, pa.table({"k": ["x"] * 9, "n": range(9)}))
    with pytest.raises(SplitError, match=r"t\.parquet .* has changed"):
        numbers(index, "x")


def test_other_files_than_parquet_are_refused_by_name(root: Path, instance: Instance) -> None:
    (root / "t.csv").write_text("k,n\nx,1\n")
    with pytest.raises(SplitError, match=r"index 'f' cannot look up in files: .*t\.csv .*not a Parquet file"):
        over(pieces_of(root / "t.csv", root), instance)


def test_a_path_outside_the_roots_is_refused_by_the_instance(root: Path, tmp_path: Path, pool: InstancePool) -> None:
    file = write(tmp_path / "outside.parquet", pa.table({"k": ["x"], "n": [1]}))
    with closing(pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(root),)))) as instance:
        index = over(pieces_of(file, tmp_path), instance)
        with pytest.raises(Exception, match="Cannot access file"):
            numbers(index, "x")


def test_closing_gives_its_connections_back(root: Path, instance: Instance) -> None:
    file = write(root / "t.parquet", pa.table({"k": ["x"], "n": [1]}))
    index = over(pieces_of(file, root), instance)
    numbers(index, "x")
    assert not instance.idle
    index.close()
    assert instance.idle


def test_closing_ends_a_look_up_in_progress_and_waits_for_it(
    root: Path, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(root / "t.parquet", pa.table({"k": ["x"], "n": [1]}))
    index = over(pieces_of(file, root), instance)
    begun, interrupted = threading.Event(), threading.Event()

    class Slow(Broken):
        def stream(self, connection: object, sql: str, values: object) -> pa.RecordBatchReader:
            begun.set()
            interrupted.wait()
            return super().stream(connection, sql, values)

    monkeypatch.setattr(instance, "engine", Slow(instance.engine, duckdb.InterruptException("INTERRUPT Error: x")))
    monkeypatch.setattr(index, "interrupt", interrupted.set)

    def look_up() -> None:
        with pytest.raises(Exception, match="interrupted"):
            numbers(index, "x")

    looking = threading.Thread(target=look_up)
    looking.start()
    begun.wait()
    index.close()
    assert instance.idle
    looking.join()
    with pytest.raises(ExecutionError, match="interrupted"):
        numbers(index, "x")


class Broken:
    """An engine whose statements fail."""

    def __init__(self, engine: Engine, error: Exception) -> None:
        self.register = engine.register
        self._error = error

    def stream(self, connection: object, sql: str, values: object) -> pa.RecordBatchReader:
        raise self._error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (duckdb.IOException("IO Error: Could not read from file"), True),
        (duckdb.InvalidInputException("Invalid Input Error: no magic bytes"), False),
    ],
)
def test_what_could_not_be_read_may_be_tried_again(
    error: Exception, again: bool, root: Path, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(root / "t.parquet", pa.table({"k": ["x"], "n": [1]}))
    index = over(pieces_of(file, root), instance)
    monkeypatch.setattr(instance, "engine", Broken(instance.engine, error))
    with pytest.raises(Exception, match=r"Could not read|no magic bytes") as caught:
        numbers(index, "x")
    assert index.retryable(caught.value) == again


def test_pages_that_a_look_up_reads_have_their_checksums(root: Path, instance: Instance) -> None:
    """A file of two row groups, of which the second one is damaged. DuckDB reads its last pages with the footer."""
    table = pa.table({"k": [key for key in "ab" for _ in range(9_000)], "n": range(100_000, 118_000)})
    pq.write_table(
        table, root / "t.parquet", row_group_size=9_000, compression="none", use_dictionary=False,
        data_page_size=1 << 12, write_page_checksum=True,
    )  # fmt: skip
    data = (root / "t.parquet").read_bytes()
    at = data.index((109_004).to_bytes(8, "little"))
    (root / "t.parquet").write_bytes(data[:at] + (7).to_bytes(8, "little") + data[at + 8 :])
    index = over(pieces_of(root / "t.parquet", root), instance)
    assert numbers(index, "a") == [*range(100_000, 109_000)]
    for key in "ba":
        with pytest.raises(SplitError, match=r"of column 'n' at byte .* does not match its checksum") as refused:
            numbers(index, key)
        assert refused.value.reason == "FILE_UNREADABLE"
