"""Numbers that are read from Parquet files to their places: the same rows as those that pyarrow decodes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.operators.sources.file_versions import Identity
from tidegate.operators.sources.formats.undecoded import plain_numbers
from tidegate.operators.sources.scan import Scan
from tidegate.proto.arrow.parquet_footer import read_footer
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

ROWS = 60_000
PLAIN: Mapping[str, Any] = {"compression": "none", "use_dictionary": False}
TYPES = (pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())


def table(rows: int = ROWS) -> pa.Table:
    random = np.random.default_rng(3)
    columns = {
        f"c{number}": pa.array(random.integers(0, 1 << 24, rows)).cast(type_) for number, type_ in enumerate(TYPES)
    }
    return pa.table(columns)


def scanned(path: Path, schema: pa.Schema, rows: tuple[int, int] | None = None) -> pa.Table:
    columns = tuple(column(field.name, field.type) for field in schema)
    scan = Scan("t", columns)
    scan.assign("t", pieces_of(path, path.parent, columns, rows))
    return pa.Table.from_batches(list(scan.run(())), scan.schema)


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of views of each call that reads numbers."""
    calls: list[int] = []
    read = os.preadv

    def counted(descriptor: int, views: list[memoryview], at: int) -> int:
        calls.append(len(views))
        return read(descriptor, views, at)

    monkeypatch.setattr(plain_numbers.os, "preadv", counted)
    return calls


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nullable", [True, False])
def test_numbers_of_all_types_are_read_by_one_call(
    tmp_path: Path, views: list[int], version: str, nullable: bool
) -> None:
    rows = table()
    schema = pa.schema([field.with_nullable(nullable) for field in rows.schema])
    path = tmp_path / "f.parquet"
    pq.write_table(rows.cast(schema), path, data_page_version=version, data_page_size=1 << 14, **PLAIN)
    assert scanned(path, rows.schema).equals(rows)
    assert len(views) == 1
    assert views[0] >= 2 * len(TYPES)


def test_each_row_group_is_read_for_itself(tmp_path: Path, views: list[int]) -> None:
    path, rows = tmp_path / "f.parquet", table()
    pq.write_table(rows, path, row_group_size=ROWS // 3, **PLAIN)
    assert scanned(path, rows.schema, (ROWS // 3, 2 * ROWS // 3)).equals(rows.slice(ROWS // 3, ROWS // 3))
    assert scanned(path, rows.schema).equals(rows)
    assert len(views) == 4


def test_some_columns_of_a_file_are_read_without_the_others(tmp_path: Path, views: list[int]) -> None:
    path, rows = tmp_path / "f.parquet", table()
    texts = pa.array([f"a text {number}" for number in range(ROWS)])
    pq.write_table(rows.append_column("text", texts), path, **PLAIN)
    wanted = pa.schema([("text", pa.string()), rows.schema.field("c5"), rows.schema.field("c0")])
    assert scanned(path, wanted).equals(pa.table([texts, rows["c5"], rows["c0"]], wanted))
    assert len(views) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"use_dictionary": True},
        {"write_page_checksum": True},
        {"use_byte_stream_split": True},
        {"max_rows_per_page": 100},
    ],
    ids=lambda options: next(iter(options)),
)
def test_other_pages_are_decoded(tmp_path: Path, views: list[int], options: dict[str, Any]) -> None:
    path, rows = tmp_path / "f.parquet", table().select(["c5"])
    pq.write_table(rows, path, **{**PLAIN, **options})
    assert scanned(path, rows.schema).equals(rows)
    assert views == []


def test_nothing_is_known_of_a_file_that_may_have_changed_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    state = Identity(device=0, inode=0, size=0, modified_ns=0), time.time_ns()
    for type_ in (pa.int64(), pa.float64()):
        rows = pa.table({"x": pa.array(range(ROWS), type_)})
        pq.write_table(rows, path, **PLAIN)
        with pa.OSFile(str(path)) as file:
            footer, fields = read_footer(file), list(rows.schema)
            [read] = plain_numbers.plain_numbers(file, file.fileno(), footer, 0, fields, state)
        assert read.take(ROWS).equals(rows["x"].chunk(0))


def test_nulls_are_decoded(tmp_path: Path, views: list[int]) -> None:
    path, rows = tmp_path / "f.parquet", table()
    with_null = pa.array([None, *rows["c5"].to_pylist()[1:]])
    rows = rows.append_column("n", with_null)
    pq.write_table(rows, path, write_statistics=False, **PLAIN)
    assert scanned(path, rows.schema).equals(rows)
    assert len(views) == 1


def test_levels_that_say_null_are_believed(tmp_path: Path) -> None:
    """A page may have bytes for a value that its levels say is null."""
    path, rows = tmp_path / "f.parquet", table().select(["c5"])
    pq.write_table(rows, path, data_page_size=1 << 30, max_rows_per_page=ROWS, write_statistics=False, **PLAIN)
    data = path.read_bytes()
    all_there = (
        b"\x04\x00\x00\x00" + bytes([ROWS << 1 & 0x7F | 0x80, ROWS << 1 >> 7 & 0x7F | 0x80, ROWS << 1 >> 14]) + b"\x01"
    )
    assert data.count(all_there) == 1
    path.write_bytes(data.replace(all_there, all_there[:-1] + b"\x00"))
    assert scanned(path, rows.schema)["c5"].null_count == pq.read_table(path)["c5"].null_count == ROWS


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "f.parquet", table()
    pq.write_table(rows, path, **PLAIN)
    monkeypatch.setattr(plain_numbers.os, "preadv", lambda *_: 0)
    with pytest.raises(SplitError, match="the file ends before its last page"):
        scanned(path, rows.schema)


def test_a_call_that_ends_early_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "f.parquet", table()
    pq.write_table(rows, path, **PLAIN)
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda descriptor, views, at: read(descriptor, [views[0][:1_000]], at))
    assert scanned(path, rows.schema).equals(rows)
