"""The files of a Dataset, in the checkpoint store's format.

A small Dataset keeps rows in memory until files are needed.

A small Dataset, such as one round of a loop makes, would cost more to write than to compute. The memory of all Datasets
together is bounded, whatever their number and size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...proto.arrow.validation import validated
from ...proto.errors import Exhausted, InternalError, Refused
from ...proto.version import __version__
from ..checkpoints.checkpoint_folder import CheckpointFolder, write_table
from ..checkpoints.disk import LocalDisk
from ..checkpoints.manifest import Manifest, Origin, Part, StateTable
from ..runtime.batch_store import Quota
from .dataset_folders import new_folder

MOST_IN_MEMORY: Final = 8 << 20
"""Bytes of a Dataset that stay in memory. Files beyond them go to disk."""

MOST_TOGETHER: Final = 64 << 20
"""Bytes that all Datasets of this process keep in memory."""

NAME: Final = "dataset"
TABLE: Final = "rows"
VERSION: Final = 1


memory: Final = Quota(MOST_TOGETHER)


@dataclass(slots=True, eq=False)
class DatasetFile:
    """Rows of `size` bytes: `batches` in memory, or a `part` on disk, which is checked when it is first read."""

    rows: int
    size: int
    part: Part | None = None
    batches: Sequence[pa.RecordBatch] | None = None
    checked: bool = False


class DatasetFiles:
    """The files of a Dataset. `put` files, `commit` those of the Dataset, then `read` and, at last, `remove` them.

    From any thread once committed.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._lock = threading.RLock()
        self._held: list[DatasetFile] = []
        self._tables: Sequence[Sequence[DatasetFile]] | None = None
        self._disk: _OnDisk | None = None
        self._removed = False

    def put(self, table: pa.Table, *, own: bool) -> DatasetFile:
        """Store rows as a file. Rows that are not the Dataset's `own` may change later, so they are copied."""
        with self._lock:
            batches = table.to_batches()
            size = sum(map(batch_bytes, batches))
            if self._disk is None and self._size() + size <= MOST_IN_MEMORY and memory.take(size):
                file = DatasetFile(table.num_rows, size, batches=batches if own else _copied(table))
                self._held.append(file)
                return file
            part = self._on_disk().put(table)
            return DatasetFile(part.rows, part.size, part=part)

    def adopt(self, folder: Path, files: Sequence[DatasetFile]) -> None:
        """Take over files that others have written, from their folder."""
        with self._lock:
            self._on_disk().adopt(folder, files)

    def commit(self, tables: Sequence[Sequence[DatasetFile]]) -> None:
        """Make these files the Dataset's tables, and remove all other files."""
        with self._lock:
            self._tables = tables
            needed = {id(file) for files in tables for file in files}
            self._let_go([file for file in self._held if id(file) not in needed])
            if self._disk is not None:
                self._disk.commit(tables)

    def read(self, file: DatasetFile) -> Sequence[pa.RecordBatch]:
        """The file's batches. Those on disk are mapped: what was read of them is resident as long as the caller has
        them.
        """
        with self._lock:
            self.check()
            return self._on_disk().read(file) if file.batches is None else file.batches

    def path(self, file: DatasetFile) -> Path:
        """The path of the file. Files in memory go to disk first, and stay there."""
        with self._lock:
            self.check()
            return self._on_disk().path(file)

    def check(self) -> None:
        if self._removed:
            raise Refused(
                "the Dataset was closed, and its rows are gone: make the Dataset again", reason="DATASET_CLOSED"
            )

    def remove(self) -> None:
        """Remove the files. Batches that were read stay valid. May be called more than once."""
        with self._lock:
            self._removed = True
            self._let_go(self._held)
            if self._disk is not None:
                self._disk.remove()

    # ---------------------------------------------------------------------------------------------------- inside

    def _size(self) -> int:
        return sum(file.size for file in self._held)

    def _let_go(self, files: Sequence[DatasetFile]) -> None:
        """Drop files from memory."""
        for file in tuple(files):
            self._held.remove(file)
            file.batches = None
            memory.give(file.size)

    def _on_disk(self) -> _OnDisk:
        """The folder on disk. The first call writes all files to it, and later files go to it too."""
        if self._disk is None:
            disk = _OnDisk(*new_folder(self._parent))
            for file in self._held:
                file.part = disk.put(pa.Table.from_batches(self.read(file)))
            if self._tables is not None:
                disk.commit(self._tables)
            self._let_go(self._held)
            self._disk = disk
        return self._disk


class ChannelFiles:
    """The files of a Dataset of another process, written by one channel to a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._disk = _OnDisk(folder, lambda: None)

    def put(self, table: pa.Table, *, own: bool) -> DatasetFile:  # noqa: ARG002 - none stays in memory
        part = self._disk.put(table)
        return DatasetFile(part.rows, part.size, part=part)

    def read(self, file: DatasetFile) -> Sequence[pa.RecordBatch]:
        return self._disk.read(file)


class _OnDisk:
    """A folder in the checkpoint store's format, with a manifest once it has been committed."""

    def __init__(self, path: Path, remove: Callable[[], None]) -> None:
        self._path = path
        self.remove = remove
        self._folder = CheckpointFolder(_Scratch(), self._path)

    def put(self, table: pa.Table) -> Part:
        with _naming_the_disk():
            return self._folder.add(table)

    def adopt(self, folder: Path, files: Sequence[DatasetFile]) -> None:
        with _naming_the_disk():
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in {file.part.file for file in files if file.part}:
                (folder / name).replace(self._path / name)

    def read(self, file: DatasetFile) -> Sequence[pa.RecordBatch]:
        with pa.memory_map(str(self.path(file))) as source:
            batches = _batches(source)
        if not file.checked:
            for batch in batches:
                validated(batch)
            file.checked = True
        return batches

    def commit(self, tables: Sequence[Sequence[DatasetFile]]) -> None:
        """Write the manifest for these tables, and remove all other files."""
        named = [
            StateTable(name=f"{TABLE}{at}", version=VERSION, parts=tuple(file.part for file in files if file.part))
            for at, files in enumerate(tables)
        ]
        with _naming_the_disk():
            self._folder.commit(_manifest(tuple(named)))
            self._folder.collect()

    def path(self, file: DatasetFile) -> Path:
        if file.part is None:
            raise InternalError("a file of a Dataset is neither in memory nor on disk")
        return self._path / file.part.file


class _Scratch(LocalDisk):
    """A disk for files that need not survive a crash, because they end with the process."""

    def sync(self, file: BinaryIO) -> None:
        file.flush()

    def sync_names(self, folder: Path) -> None:
        """Do nothing: nobody looks for the files after a crash."""


@contextmanager
def _naming_the_disk() -> Iterator[None]:
    """A context that reports a disk that is full or fails."""
    try:
        yield
    except OSError as error:
        raise Exhausted(
            f"a Dataset cannot be written: {error}; give the spill folder room", reason="SPILL_FAILED"
        ) from error


def _copied(table: pa.Table) -> Sequence[pa.RecordBatch]:
    sink = pa.BufferOutputStream()
    write_table(table, sink)
    return [validated(batch) for batch in _batches(sink.getvalue())]


def _batches(file: pa.Buffer | pa.NativeFile) -> Sequence[pa.RecordBatch]:
    reader = pa.ipc.open_file(file)
    return [reader.get_batch(at) for at in range(reader.num_record_batches)]


@cache
def _version() -> str:
    return __version__


def _manifest(tables: tuple[StateTable, ...]) -> Manifest:
    engines = {"tidegate": _version(), "pyarrow": pa.__version__}
    origin = Origin(plan="", meaning="", options={}, tables={}, engines=engines)
    return Manifest(
        name=NAME,
        epoch=1,
        taken_us=time.time_ns() // 1000,
        watermark=None,
        sources={},
        origin=origin,
        tables=tables,
    )
