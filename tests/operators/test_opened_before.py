"""A Parquet file of many splits is not opened again to cut each of them, as long as it is the file that it was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.sources import file_versions, split_pieces
from tidegate.operators.sources.formats import parquet_opening
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

ROWS = 3_000
COLUMNS = (column("x", pa.int64()),)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "f.parquet"
    write(path, 0)
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened to cut splits."""
    paths: list[str] = []

    class Counted(file_versions.OpenFile):
        def __init__(self, piece: FilePiece) -> None:
            paths.append(piece.path)
            super().__init__(piece)

    monkeypatch.setattr(split_pieces, "OpenFile", Counted)
    return paths


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were changed a moment ago count as settled."""
    monkeypatch.setattr(file_versions, "_SETTLED_NS", -1)


def write(path: Path, first: int) -> None:
    rows = pa.table({"x": range(first, first + ROWS)})
    pq.write_table(rows, path, row_group_size=1_000, compression="none", use_dictionary=False)


def cut(path: Path, rows: tuple[int, int], *, key: bool = False) -> list[tuple[object, ...]]:
    columns = [replace(column, key=key) for column in COLUMNS]
    pieces = [piece for piece in pieces_of(path, path.parent, columns, rows) if isinstance(piece, FilePiece)]
    return [(piece.rows, piece.schema, piece.row_bytes, piece.key_bounds, piece.never_null) for piece in pieces]


@pytest.mark.usefixtures("settled")
def test_a_file_is_opened_for_its_first_split_alone(path: Path, opened: list[str]) -> None:
    first = cut(path, (0, 1_000), key=True)
    assert [bounds for *_, bounds, _ in first] == [(("x", 0, 999),)]
    assert [bounds for *_, bounds, _ in cut(path, (1_000, 2_000), key=True)] == [(("x", 1_000, 1_999),)]
    assert cut(path, (0, 1_000), key=True) == first
    assert len(opened) == 1
    cut(path, (0, 1_000), key=False)
    assert len(opened) == 2, "other columns need other facts"


def test_a_file_that_was_changed_a_moment_ago_is_opened_for_each_split(path: Path, opened: list[str]) -> None:
    assert cut(path, (0, 1_000)) == cut(path, (0, 1_000))
    assert len(opened) == 2


@pytest.mark.usefixtures("settled")
def test_another_file_of_the_same_size_and_time_is_opened(path: Path, opened: list[str]) -> None:
    cut(path, (0, 1_000), key=True)
    before = path.stat()
    other = path.with_name("other.parquet")
    write(other, 5_000)
    with other.open("r+b") as file:
        assert file.seek(0, os.SEEK_END) == before.st_size
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert [bounds for *_, bounds, _ in cut(path, (0, 1_000), key=True)] == [(("x", 5_000, 5_999),)]
    assert len(opened) == 2


def scanned(path: Path, rows: tuple[int, int]) -> list[int]:
    scan = Scan("t", COLUMNS)
    scan.assign("t", pieces_of(path, path.parent, COLUMNS, rows))
    return [row for batch in scan.run(()) for row in batch.column("x").to_pylist()]


@pytest.mark.usefixtures("settled")
def test_readers_of_a_file_look_at_its_footer_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    read = parquet_opening.read_footer
    monkeypatch.setattr(parquet_opening, "read_footer", lambda file: looked.append(file) or read(file))
    for first in range(0, ROWS, 1_000):
        assert scanned(path, (first, first + 1_000)) == list(range(first, first + 1_000))
    assert len(looked) == 1


@pytest.mark.usefixtures("settled")
def test_readers_of_another_file_of_the_same_size_and_time_give_its_rows(path: Path) -> None:
    assert scanned(path, (0, 1_000)) == list(range(1_000))
    before = path.stat()
    write(path, 5_000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert scanned(path, (0, 1_000)) == list(range(5_000, 6_000))


@pytest.mark.usefixtures("settled")
def test_a_link_in_the_place_of_a_file_is_refused(path: Path) -> None:
    split = split_pieces.expand(split_pieces.FileSplit(str(path)), [str(path.parent)], "split 1 of source 't'")
    split_pieces.open_pieces(split, COLUMNS)
    moved = path.rename(path.with_name("moved.parquet"))
    path.symlink_to(moved)
    with pytest.raises(SplitError) as refused:
        split_pieces.open_pieces(split, COLUMNS)
    assert refused.value.reason == "FILE_CHANGED"


@pytest.mark.usefixtures("settled")
def test_rows_beyond_the_end_are_refused_as_at_the_first_split(path: Path) -> None:
    refusals = []
    for _ in range(2):
        with pytest.raises(SplitError, match="reach beyond its end") as refused:
            cut(path, (2_000, 4_000))
        refusals.append(refused.value.reason)
        cut(path, (0, ROWS))
    assert refusals == ["OUT_OF_BOUNDS", "OUT_OF_BOUNDS"]
