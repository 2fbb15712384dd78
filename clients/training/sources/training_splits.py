"""The splits of a data set: the units that a loader shuffles, seeks and reads one by one.

A file is cut where the engine reads it in parts: Parquet at row groups, Arrow files at record batches, small ones
joined. Other files are one split each. Tables in memory are cut every 65,536 rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...proto.arrow.arrow_streams import with_a_stream
from ...proto.errors import InvalidRequest
from ...proto.values import FileSplit, FoundFile, as_format
from ...splits import SplitLike, several
from ...task import Task

TABLE_ROWS: Final = 65_536

SPLIT: Final = "_split"
ROW: Final = "_row"
"""The columns of numbers of splits and of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSplit:
    """A unit of reading. `rows` is the number that it reads, None where only reading tells."""

    name: str
    data: SplitLike
    rows: int | None


@dataclass(frozen=True, slots=True, eq=False)
class SplitList:
    """The splits of a data set in order, with a digest of what they read."""

    splits: tuple[TrainingSplit, ...]
    digest: str

    @property
    def sizes(self) -> list[int | None]:
        return [split.rows for split in self.splits]


def list_splits(
    task: Task, source: str, data: SplitLike | Sequence[SplitLike], reads: frozenset[str] = frozenset()
) -> SplitList:
    """The splits of a source's data. The service lists files; it refuses what it would refuse to read. If the plan
    `reads` columns `_split` and `_row` that the data does not have, they are the numbers of the split, and of the row
    in its file or table.
    """
    digest = hashlib.sha256()
    splits: list[TrainingSplit] = []
    folders = FolderNames()
    for item in several(data):
        match item:
            case FileSplit(rows=rows, row_groups=groups) if rows is not None or groups is not None:
                [file] = task.find_files(source, item, pieces=True)
                folders.add(file)
                digest.update(fingerprint(file, rows, groups))
                size = None if rows is None else rows[1] - rows[0]
                part = replace(item, version=file.version, number=len(splits))
                splits.append(TrainingSplit(f"{file.path}, rows {rows}, row groups {groups}", part, size))
            case str() | os.PathLike() | FileSplit():
                for file in task.find_files(source, item, pieces=True):
                    folders.add(file)
                    digest.update(fingerprint(file, file.pieces))
                    splits.extend(_of_file(file, item, len(splits)))
            case _ if hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__"):
                table = pa.table(with_a_stream(item)).combine_chunks()
                digest.update(content(table))
                splits.extend(_of_table(table, len(splits), reads))
            case _:
                raise InvalidRequest(
                    "the data of a loader must be paths, tidegate.FileSplit, Arrow data (anything with "
                    f"__arrow_c_stream__), or a list of these, not {type(item).__name__}",
                    reason="NOT_A_SPLIT",
                )
    if not splits:
        raise InvalidRequest(f"source {source!r} has no data: give it files or a table with rows", reason="NO_DATA")
    digest.update(folders.text().encode())
    return SplitList(tuple(splits), digest.hexdigest()[:32])


def fingerprint(file: FoundFile, *parts: object) -> bytes:
    """The size and end of a file, and the parts of it that are read: all that a digest has beside its name."""
    return " ".join(map(str, (file.size, file.ending, *parts))).encode() + b"\n"


class FolderNames:
    """The paths of files below their common folder: a copy of the data set elsewhere is the same data set."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def add(self, file: FoundFile) -> None:
        self._paths.append(file.path)

    def text(self) -> str:
        common = os.path.commonpath([os.path.dirname(path) for path in self._paths]) if self._paths else ""
        return "".join(f"{os.path.relpath(path, common)}\n" for path in self._paths)


def _of_file(file: FoundFile, asked: Any, number: int) -> Iterator[TrainingSplit]:
    missing = asked.missing_columns if isinstance(asked, FileSplit) else None
    whole = FileSplit(
        file.path, format=as_format(file.format), missing_columns=missing, number=number, version=file.version
    )
    if len(file.pieces) <= 1:
        yield TrainingSplit(file.path, whole, file.pieces[0][1] if file.pieces else None)
        return
    for at, (first, end) in enumerate(file.pieces):
        data = replace(whole, rows=(first, end), number=number + at)
        yield TrainingSplit(f"{file.path}, rows {first} to {end}", data, end - first)


def _of_table(table: pa.Table, number: int, reads: frozenset[str]) -> Iterator[TrainingSplit]:
    for at, first in enumerate(range(0, table.num_rows, TABLE_ROWS)):
        data = table.slice(first, TABLE_ROWS)
        numbers = {
            SPLIT: np.full(data.num_rows, number + at, np.int64),
            ROW: np.arange(first, first + data.num_rows, dtype=np.int64),
        }
        for name in sorted(reads & numbers.keys() - set(data.column_names)):
            data = data.append_column(name, pa.array(numbers[name]))
        yield TrainingSplit(f"table {number}, rows {first} to {first + data.num_rows}", data, data.num_rows)


def content(table: pa.Table) -> bytes:
    """A digest of the rows of a table, whatever its chunks."""
    sink = _Digest()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), table.schema) as writer:
        writer.write_table(table, TABLE_ROWS)
    return sink.digest.digest()


class _Digest:
    """A file that keeps the digest of its bytes alone."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...
