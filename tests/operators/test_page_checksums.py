"""Checksums of the pages that DuckDB has read in statements that read only parts of their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.sources.byte_ranges import ByteRanges
from tidegate.operators.sources.file_relations import FileSource
from tidegate.operators.sources.formats import parquet_pages
from tidegate.proto.errors import SplitError

from .data import Rows, column, pieces_of, run

GROUPS, GROUP_ROWS = 3, 25_000
FILE_ROWS = GROUPS * GROUP_ROWS
COLUMNS = [column("k", pa.int64()), column("v", pa.int64())]
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
FILES = ("a.parquet", "b.parquet")

Chunk = tuple[int, int, int]
"""A file, a row group of it, and a column."""


def chunks(files: range, groups: range, columns: range) -> set[Chunk]:
    return {(file, group, at) for file in files for group in groups for at in columns}


ALL_GROUPS = range(GROUPS)
KEYS, BOTH = range(1), range(2)
PARTS: dict[str, set[Chunk]] = {
    "SELECT c0, c1 FROM t LIMIT 3": chunks(range(1), range(1), BOTH),
    "SELECT c0, c0 FROM t LIMIT 3": chunks(range(1), range(1), KEYS),
    f"SELECT c0, c1 FROM t LIMIT 3 OFFSET {GROUP_ROWS}": chunks(range(1), range(1, 2), BOTH),
    f"SELECT c0, c1 FROM t LIMIT 3 OFFSET {FILE_ROWS - 1}": chunks(range(2), range(0, GROUPS, 2), BOTH),
    f"SELECT sum(c0), sum(c1) FROM t WHERE c0 < {GROUP_ROWS}": chunks(range(1), range(1), BOTH),
    f"SELECT sum(c1), sum(c1) FROM t WHERE c0 >= {2 * FILE_ROWS - 5}": chunks(range(1, 2), range(2, 3), BOTH),
    f"SELECT c0, c1 FROM t WHERE c0 >= {FILE_ROWS + GROUP_ROWS} LIMIT 3": chunks(range(1, 2), range(1, 2), BOTH),
    "SELECT min(c0), max(c0) FROM (SELECT c0 FROM t LIMIT 100)": chunks(range(1), range(1), KEYS),
}
"""Statements over both files, with the chunks of which each one reads rows. The keys are the numbers of the rows."""


@pytest.fixture
def sound(root: Path) -> list[bytes]:
    random = np.random.default_rng(3)
    for number, name in enumerate(FILES):
        keys = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        table = pa.table({"k": keys, "v": random.integers(0, 1_000, FILE_ROWS)})
        pq.write_table(
            table, root / name, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False,
            data_page_size=1 << 14, write_page_checksum=True,
        )  # fmt: skip
    return [(root / name).read_bytes() for name in FILES]


def pieces(root: Path) -> list[FilePiece]:
    return [piece for name in FILES for piece in pieces_of(root / name, root, COLUMNS) if isinstance(piece, FilePiece)]


def answer(instance: Instance, root: Path, sql: str) -> Rows:
    sources = [FileSource(source="t", relation="t", columns=tuple(COLUMNS))]
    fragment = Fragment(sql, schema=SCHEMA, instance=instance, files=sources, plan_path="read")
    fragment.assign("t", pieces(root))
    try:
        return run(fragment)
    finally:
        fragment.close()


def damage(path: Path, data: bytes, group: int, at: int) -> None:
    """Change a value of the chunk's first page, to another one that is as valid."""
    chunk = pq.read_metadata(path).row_group(group).column(at)
    position = data.index((b"\0" * 6), chunk.data_page_offset + 100)
    path.write_bytes(data[:position] + b"\1" + data[position + 1 :])


@pytest.mark.parametrize("sql", PARTS)
def test_pages_that_a_part_of_the_files_needs_are_verified_and_those_behind_are_not_needed(
    sql: str, sound: list[bytes], root: Path, instance: Instance
) -> None:
    expected = answer(instance, root, sql)
    for number, group, at in sorted(chunks(range(2), ALL_GROUPS, BOTH)):
        for name, data in zip(FILES, sound, strict=True):
            (root / name).write_bytes(data)
        damage(root / FILES[number], sound[number], group, at)
        if (number, group, at) in PARTS[sql]:
            message = rf"{FILES[number]} .* of column '{COLUMNS[at].name}' at byte .* does not match its checksum"
            with pytest.raises(SplitError, match=message) as refused:
                answer(instance, root, sql)
            assert refused.value.reason == "FILE_UNREADABLE"
        else:
            assert answer(instance, root, sql) == expected


def test_a_sorted_limit_looks_up_verified_values(sound: list[bytes], root: Path, instance: Instance) -> None:
    """DuckDB reads all values that it sorts by, and of the others those of the rows that are left."""
    sql = "SELECT c0, c1 FROM t ORDER BY c1 DESC, c0 LIMIT 2"
    answer(instance, root, sql)
    for at in BOTH:
        (root / FILES[0]).write_bytes(sound[0])
        for group in ALL_GROUPS:
            damage(root / FILES[0], (root / FILES[0]).read_bytes(), group, at)
        with pytest.raises(SplitError, match="does not match its checksum"):
            answer(instance, root, sql)


def test_what_is_verified_of_a_file_is_verified_once(
    sound: list[bytes], root: Path, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []
    real: Callable[..., int] = parquet_pages._checksum
    monkeypatch.setattr(parquet_pages, "_checksum", lambda *page: (checked.append(_place(*page)), real(*page))[1])
    counts = []
    for sql in ("SELECT c0, c1 FROM t LIMIT 3", f"SELECT c0, c1 FROM t LIMIT 3 OFFSET {GROUP_ROWS}", *["FROM t"] * 2):
        answer(instance, root, sql)
        counts.append(len(checked))
    assert 2 < counts[0] < counts[1] < counts[2] == counts[3]
    assert len(checked) - len(set(checked)) <= 2  # of each file, the last page, which DuckDB reads with the footer


def _place(file: pa.NativeFile, at: int, size: int) -> tuple[bytes, int]:
    """A page of one of the files, which differ in their first values."""
    return file.read_at(200, 0), at


@pytest.mark.parametrize(("rows", "refused"), [((0, GROUP_ROWS), False), ((GROUP_ROWS - 1, FILE_ROWS), True)])
def test_of_a_part_of_a_file_its_own_row_groups_count(
    rows: tuple[int, int], refused: bool, sound: list[bytes], root: Path, instance: Instance
) -> None:
    damage(root / FILES[0], sound[0], 1, 1)
    sources = [FileSource(source="t", relation="t", columns=tuple(COLUMNS))]
    fragment = Fragment("SELECT sum(c0), sum(c1) FROM t", schema=SCHEMA, instance=instance, files=sources)
    many = [*pieces_of(root / FILES[0], root, COLUMNS, rows), *pieces_of(root / FILES[1], root, COLUMNS)]
    fragment.assign("t", many)
    if refused:
        with pytest.raises(SplitError, match="of column 'v' at byte"):
            run(fragment)
    else:
        assert len(run(fragment)) == 1
    fragment.close()


def test_the_log_has_every_byte_that_the_system_has_read(sound: list[bytes], root: Path, instance: Instance) -> None:
    """What is verified rests on DuckDB's log of its reads."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("only Linux counts what a process reads")
    connection, path = instance.connect(), str(root / FILES[0])
    for sql in ("SELECT sum(v) FROM read_parquet($1)", "SELECT * FROM read_parquet($1) WHERE k = 5"):
        instance.read_log.begin()
        before = int(counters.read_text().split("rchar: ")[1].split()[0])
        connection.execute(sql, [path]).fetchall()
        seen = int(counters.read_text().split("rchar: ")[1].split()[0]) - before
        messages = instance.connect().execute("SELECT message FROM duckdb_logs()").fetchall()
        logged = sum(int(json.loads(message).get("bytes", 0)) for (message,) in messages)
        assert 0 <= seen - logged < 4_096  # the counters themselves are read, too
        reads = instance.read_log.end([path])[path]
        assert 0 < reads.size <= logged
    instance.disconnect(connection)


def test_a_log_that_nobody_wants_is_empty(sound: list[bytes], root: Path, instance: Instance) -> None:
    connection, path = instance.connect(), str(root / FILES[0])
    instance.read_log.begin()
    instance.read_log.begin()
    connection.execute("SELECT sum(v) FROM read_parquet($1)", [path]).fetchall()
    assert instance.read_log.end([]) == {}
    assert instance.read_log.end([path])[path].size > FILE_ROWS * 8
    connection.execute("SELECT sum(v) FROM read_parquet($1)", [path]).fetchall()
    assert connection.execute("SELECT count(*) FROM duckdb_logs()").fetchall() == [(0,)]
    instance.disconnect(connection)


def test_ranges_touch_and_cover_bytes() -> None:
    ranges = ByteRanges([(10, 20), (15, 30), (30, 40), (50, 60)])
    read = {*range(10, 40), *range(50, 60)}
    assert ranges.size == len(read)
    for start in range(65):
        for end in range(start + 1, 66):
            wanted = set(range(start, end))
            assert ranges.touch(start, end) == bool(wanted & read), (start, end)
            assert ranges.cover(start, end) == (wanted <= read), (start, end)


def test_rows_that_were_taken_before_their_reading_was_stopped_are_verified(
    sound: list[bytes], root: Path, instance: Instance
) -> None:
    """A batch is 65,536 rows, of the first file alone."""
    sources = [FileSource(source="t", relation="t", columns=tuple(COLUMNS))]
    fragment = Fragment("SELECT c0, c1 FROM t", schema=SCHEMA, instance=instance, files=sources)
    for number, group, refused in ((0, 0, True), (0, 2, True), (1, 2, False)):
        for name, data in zip(FILES, sound, strict=True):
            (root / name).write_bytes(data)
        damage(root / FILES[number], sound[number], group, 1)
        fragment.assign("t", pieces(root))
        batches = fragment.run([])
        assert next(batches).num_rows == 65_536
        with pytest.raises(SplitError, match="of column 'v' at byte") if refused else nullcontext():
            batches.close()  # type: ignore[attr-defined]
    fragment.close()


def test_an_error_that_closes_a_reading_stays_the_error(sound: list[bytes], root: Path, instance: Instance) -> None:
    damage(root / FILES[0], sound[0], 0, 1)
    sources = [FileSource(source="t", relation="t", columns=tuple(COLUMNS))]
    fragment = Fragment("SELECT c0, c1 FROM t", schema=SCHEMA, instance=instance, files=sources)
    fragment.assign("t", pieces(root))
    with pytest.raises(RuntimeError, match="of my own"):
        fail_at(closing(passed_on(fragment.run([]))))
    fragment.close()


def fail_at(rows: closing[Generator[pa.RecordBatch]]) -> None:
    with rows as batches:
        next(batches)
        raise RuntimeError("of my own")


def passed_on(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    with closing(batches):  # type: ignore[type-var]
        yield from batches
