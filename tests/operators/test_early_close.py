"""A satisfied LIMIT stops reading: counted below the engines, in bytes and row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, FSSpecHandler, LocalFileSystem, PyFileSystem

from tidegate.operators.core.piece import Piece
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.duckdb_calls import PublicEngine
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.statement_inputs import StreamSource
from tidegate.operators.sources.file_reads import FileReads
from tidegate.operators.sources.file_relations import FileSource
from tidegate.operators.sources.scan import Scan

from ..searching import in_search
from .data import column, pieces_of, rows_of

GROUPS = 20
GROUP_ROWS = 100_000
X = pa.schema([("x", pa.int64())])
COLUMNS = (column("x", pa.int64()),)


class CountingHandler(FSSpecHandler):
    """Opens local files so that every byte that is read from them is counted."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.local = LocalFileSystem()

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(CountingFile(path, self.reads), mode="r")

    def get_file_info(self, paths: Sequence[str]) -> Any:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: FileSelector) -> Any:
        return self.local.get_file_info(selector)

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.reads)


class CountingFile:
    def __init__(self, path: str, reads: list[tuple[int, int]]) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by pyarrow
        self._reads = reads

    def read(self, size: int = -1) -> bytes:
        start = self._file.tell()
        content = self._file.read(size)
        self._reads.append((start, len(content)))
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def path(root: Path) -> Path:
    """Twenty row groups of numbers that do not compress."""
    numbers = np.random.default_rng(1).integers(0, 2**62, GROUPS * GROUP_ROWS)
    table = pa.table({"x": numbers, "unwanted": numbers})
    pq.write_table(table, root / "f.parquet", row_group_size=GROUP_ROWS, use_dictionary=False, compression="none")
    return root / "f.parquet"


def groups_touched(path: Path, reads: list[tuple[int, int]]) -> set[int]:
    """The row groups in which `x` was read."""
    footer = pq.read_metadata(path)
    touched = set()
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(0)
        start, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
        if any(at < end and start < at + size for at, size in reads):
            touched.add(group)
    return touched


def test_a_scan_closed_early_has_read_one_row_group_of_one_column(path: Path, root: Path) -> None:
    handler = CountingHandler()
    scan = Scan("t", COLUMNS, filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(path, root))
    output = scan.run(())
    next(output)
    output.close()  # type: ignore[attr-defined]
    assert groups_touched(path, handler.reads) == {0}
    assert handler.bytes < 1.5 * GROUP_ROWS * 8


def test_a_small_row_groups_columns_are_read_in_one_request_each(path: Path, root: Path) -> None:
    handler = CountingHandler()
    scan = Scan("t", COLUMNS, filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(path, root))
    assert sum(batch.num_rows for batch in scan.run(())) == GROUPS * GROUP_ROWS
    assert sum(size > GROUP_ROWS for _, size in handler.reads) == GROUPS


def test_a_large_row_group_is_read_a_buffer_at_a_time(root: Path) -> None:
    table = pa.table({"x": np.random.default_rng(1).integers(0, 2**62, 3 * (1 << 20))})
    pq.write_table(table, root / "f.parquet", row_group_size=len(table), use_dictionary=False, compression="none")
    handler = CountingHandler()
    scan = Scan("t", COLUMNS, filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(root / "f.parquet", root))
    assert sum(batch.num_rows for batch in scan.run(())) == len(table)
    assert max(size for _, size in handler.reads) <= 2 << 20


def test_a_range_reads_its_row_groups_alone(path: Path, root: Path) -> None:
    handler = CountingHandler()
    scan = Scan("t", COLUMNS, filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(path, root, rows=(5 * GROUP_ROWS + 1, 6 * GROUP_ROWS + 1)))
    assert len(rows_of(scan.run(()))) == GROUP_ROWS
    assert groups_touched(path, handler.reads) == {5, 6}


def test_a_limit_above_a_scan_stops_its_reading(path: Path, root: Path, instance: Instance) -> None:
    handler = CountingHandler()
    scan = Scan("t", COLUMNS, filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(path, root))
    source = StreamSource(relation="in0", schema=X, size_class=10_000_000)
    limit = Fragment("SELECT c0 FROM in0 LIMIT 10", schema=X, instance=instance, streams=[source])
    read: list[int] = []
    batches = (read.append(batch.num_rows) or batch for batch in scan.run(()))
    assert len(rows_of(limit.run([BatchStream(X, batches)]))) == 10
    assert len(groups_touched(path, handler.reads)) <= 2
    assert sum(read) <= 4 * 65_536


def bytes_read_by(fragment: Fragment, take: int | None) -> int:
    """What the process has read (of files, from the page cache too) while `fragment` gave `take` batches."""
    before = _read_so_far()
    output: Iterator[pa.RecordBatch] = fragment.run(())
    for _ in range(take) if take is not None else iter(int, 1):
        if next(output, None) is None:
            break
    output.close()  # type: ignore[attr-defined]
    return _read_so_far() - before


def _read_so_far() -> int:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("only Linux counts what a process reads")
    return int(counters.read_text().split("rchar: ")[1].split()[0])


def over_file(instance: Instance, sql: str, pieces: Sequence[Piece]) -> Fragment:
    files = [FileSource(source="t", relation="t", columns=COLUMNS)]
    fragment = Fragment(sql, schema=X, instance=instance, files=files)
    fragment.assign("t", pieces)
    return fragment


def test_a_limit_over_files_stops_their_reading(path: Path, root: Path, instance: Instance) -> None:
    pieces = pieces_of(path, root)
    everything = bytes_read_by(over_file(instance, "SELECT c0 FROM t", pieces), None)
    assert everything >= GROUPS * GROUP_ROWS * 8
    limited = bytes_read_by(over_file(instance, "SELECT c0 FROM t LIMIT 10", pieces), None)
    assert limited < everything / 3


def test_closing_a_fragment_over_files_stops_their_reading(path: Path, root: Path, instance: Instance) -> None:
    pieces = pieces_of(path, root)
    assert bytes_read_by(over_file(instance, "SELECT c0 FROM t", pieces), 1) < GROUPS * GROUP_ROWS * 8 / 3


def test_a_range_over_files_reads_its_row_groups_alone(path: Path, root: Path, instance: Instance) -> None:
    pieces = pieces_of(path, root, rows=(5 * GROUP_ROWS + 1, 6 * GROUP_ROWS + 1))
    assert bytes_read_by(over_file(instance, "SELECT c0 FROM t", pieces), None) < 4 * GROUP_ROWS * 8


def test_a_filter_over_files_skips_row_groups(root: Path, instance: Instance) -> None:
    path = root / "sorted.parquet"
    pq.write_table(pa.table({"x": np.arange(GROUPS * GROUP_ROWS)}), path, row_group_size=GROUP_ROWS, compression="none")
    pieces = pieces_of(path, root)
    everything = bytes_read_by(over_file(instance, "SELECT c0 FROM t", pieces), None)
    assert bytes_read_by(over_file(instance, "SELECT c0 FROM t WHERE c0 = 5", pieces), None) < everything / 8


def counted(instance: Instance, sql: str, pieces: Sequence[Piece], take: int | None = None) -> tuple[FileReads, int]:
    """What the fragment says it has read, and how many bytes the system says it was."""
    fragment = over_file(instance, sql, pieces)
    seen = bytes_read_by(fragment, take)
    return fragment.reads, seen


def test_what_a_limit_has_read_is_counted_and_not_what_it_was_given(path: Path, root: Path, instance: Instance) -> None:
    reads, seen = counted(instance, "SELECT c0 FROM t LIMIT 10", pieces_of(path, root))
    assert not reads.at_least
    assert 10 <= reads.rows <= 4 * GROUP_ROWS
    assert GROUP_ROWS * 8 <= reads.bytes <= seen < GROUPS * GROUP_ROWS * 8 / 3


def test_what_is_read_to_its_end_is_counted_whole(path: Path, root: Path, instance: Instance) -> None:
    reads, seen = counted(instance, "SELECT c0 FROM t WHERE c0 % 100 = 0", pieces_of(path, root))
    assert (reads.rows, reads.at_least) == (GROUPS * GROUP_ROWS, False)
    assert GROUPS * GROUP_ROWS * 8 <= reads.bytes <= seen


def test_a_filter_counts_the_row_groups_that_it_went_through(root: Path, instance: Instance) -> None:
    path = root / "sorted.parquet"
    pq.write_table(pa.table({"x": np.arange(GROUPS * GROUP_ROWS)}), path, row_group_size=GROUP_ROWS)
    reads, _ = counted(instance, f"SELECT c0 FROM t WHERE c0 < {2 * GROUP_ROWS - 5}", pieces_of(path, root))
    assert reads.rows == 2 * GROUP_ROWS


def test_of_a_reading_that_is_stopped_from_outside_the_counts_say_at_least(
    path: Path, root: Path, instance: Instance
) -> None:
    reads, seen = counted(instance, "SELECT c0 FROM t", pieces_of(path, root), take=1)
    assert (reads.rows, reads.at_least) == (65_536, True)
    assert 0 < reads.bytes <= seen


def test_few_rows_count_as_read_without_a_profile(root: Path, instance: Instance) -> None:
    pq.write_table(pa.table({"x": np.arange(1_000)}), root / "small.parquet")
    reads, _ = counted(instance, "SELECT c0 FROM t LIMIT 10", pieces_of(root / "small.parquet", root))
    assert reads == FileReads(1_000, (root / "small.parquet").stat().st_size)


def test_a_fragment_that_nobody_read_has_read_nothing(path: Path, root: Path, instance: Instance) -> None:
    fragment = over_file(instance, "SELECT c0 FROM t", pieces_of(path, root))
    list(fragment.run(()))
    fragment.run(()).close()  # type: ignore[attr-defined]
    assert fragment.reads == FileReads()


@pytest.mark.parametrize("engine", [PrivateEngine, *in_search(PublicEngine)], indirect=True)
def test_what_a_statement_spilled_is_not_taken_for_the_file(path: Path, root: Path, pool: InstancePool) -> None:
    small = pool.take(InstanceSettings(memory_limit=40 << 20, roots=(str(root),)))
    sql = "SELECT c0 FROM (SELECT c0, unnest([1, 2, 3, 4]) FROM t) ORDER BY hash(c0)"
    reads, seen = counted(small, sql, pieces_of(path, root))
    assert seen > 3 * path.stat().st_size
    assert reads == FileReads(GROUPS * GROUP_ROWS, path.stat().st_size)
    small.close()
