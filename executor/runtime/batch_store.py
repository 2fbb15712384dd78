"""Batches held for a task: in memory up to a bound, then in files of the task's own folder, up to its quota.

Callers hold the task's lock, except for `SpillFiles.write`, which is slow and needs no lock. The newest batches spill
first: readers take the oldest first, so the oldest stay in memory. Small batches go to disk together, so that one file
holds several of them.

Batches here are freed one by one, in any order, and share a quota. Rows that one reader holds as a whole are in a
`SpillBuffer` (`proto/arrow/spill_buffer.py`).
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ...operators.core.row_reader import read_between, row_ends
from ...operators.core.sizes import BATCH_BYTES, batch_bytes
from ...proto.errors import Exhausted, TaskCancelled

_RUN_BYTES = 4 << 20
FILE_MARGIN = 4096
"""Bytes that a file may have beyond its batches."""


class Quota:
    """A number of bytes that may be used, and how many of them are used.

    One quota counts the bytes on disk of one task, shared by its splits and its output; `kept` of them stay for the
    task's life. Another counts the bytes in memory of all Datasets of a process.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.kept = 0
        self._lock = threading.RLock()  # a finalizer may give bytes back on any thread, even on one that holds the lock

    def take(self, size: int) -> bool:
        with self._lock:
            if self.used + size > self.limit:
                return False
            self.used += size
            return True

    def add(self, size: int) -> None:
        """Count bytes that are there already, even beyond the limit."""
        with self._lock:
            self.used += size

    def give(self, size: int) -> None:
        with self._lock:
            self.used -= size

    def keep(self, size: int) -> None:
        """Mark `size` of the taken bytes as kept for the task's life; a negative size takes the mark off."""
        with self._lock:
            self.kept += size


class SpillFiles:
    """The task's folder, made when the first file needs it. `remove` deletes the folder with its files for good.

    Files are numbered. Where principals share a folder, their names are `unguessable`.
    """

    def __init__(self, folder: Path, *, unguessable: bool = False) -> None:
        self.folder = folder
        self._unguessable = unguessable
        self._made = 0
        self._removed = False
        self._lock = threading.Lock()

    def new_path(self, ending: str) -> Path:
        """A new path in the folder, given to one caller only."""
        with self._lock:
            if self._removed:
                raise TaskCancelled("the task was deleted")
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise _failed(error) from error
            self._made += 1
            name = secrets.token_hex(16) if self._unguessable else self._made
            return self.folder / f"{name}{ending}"

    def write(self, run: SpillRun) -> SpillFile:
        path = self.new_path(".arrow")
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
                for batch in itertools.chain.from_iterable(run.parts):
                    writer.write_batch(batch)
            size = path.stat().st_size
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _failed(error) from error
        self.check_kept()
        return SpillFile(path, size)

    def check_kept(self) -> None:
        """Raise `TaskCancelled` if the folder was removed during a write, after removing the written file too."""
        if self._removed:
            self.remove()
            raise TaskCancelled("the task was deleted")

    def remove(self) -> None:
        with self._lock:
            self._removed = True
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class SpillSpace:
    """The files that a task may write, and the quota for them."""

    files: SpillFiles
    quota: Quota


class SpillFile:
    """An Arrow IPC file, deleted when its last holding is freed. Reading maps the file and copies nothing."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.holdings = 0

    def read(self, first: int, count: int) -> tuple[pa.RecordBatch, ...]:
        with pa.memory_map(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            return tuple(reader.get_batch(index) for index in range(first, first + count))


class Holding:
    """Batches of one schema, in memory or in a file."""

    __slots__ = ("_batches", "_ends", "_file", "_first", "count", "rows", "size")

    def __init__(self, batches: tuple[pa.RecordBatch, ...]) -> None:
        self._batches: tuple[pa.RecordBatch, ...] | None = batches
        self._file: SpillFile | None = None
        self._first = 0
        self.count = len(batches)
        self._ends = array("q", row_ends(batches))
        self.rows = self._ends[-1] if self._ends else 0
        self.size = sum(map(batch_bytes, batches))

    @property
    def in_memory(self) -> bool:
        return self._batches is not None

    @property
    def file(self) -> SpillFile | None:
        return self._file

    def batches(self) -> tuple[pa.RecordBatch, ...]:
        return self.some(0, self.count)

    def batch(self, index: int) -> pa.RecordBatch:
        """The batch at `index`. From a file, only this batch is read."""
        return self.some(index, 1)[0]

    def some(self, first: int, count: int) -> tuple[pa.RecordBatch, ...]:
        """Batches from number `first` on. From a file, only these are read."""
        batches = self._batches
        if batches is not None:
            return batches[first : first + count]
        if self._file is None:
            raise RuntimeError("a freed batch was read")
        return self._file.read(self._first + first, min(count, self.count - first))

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Rows `start` to `end`, a few batches of a file at a time: pages that were read stay resident as long as they
        are mapped.
        """
        return read_between(_FewBatches(self).batch, self._ends, start, end)

    def move_to(self, file: SpillFile, first: int) -> None:
        self._file, self._first = file, first
        self._batches = None  # last, because another thread may be about to read
        file.holdings += 1

    def drop(self) -> None:
        self._batches = self._file = None


class _FewBatches:
    """Batches of a holding, of which it has only a few megabytes at the same time."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._count = max(1, BATCH_BYTES * holding.count // max(holding.size, 1))
        self._first = 0
        self._batches: tuple[pa.RecordBatch, ...] = ()

    def batch(self, number: int) -> pa.RecordBatch:
        if not self._first <= number < self._first + len(self._batches):
            self._batches = ()
            self._first, self._batches = number, self._holding.some(number, self._count)
        return self._batches[number - self._first]


@dataclass(frozen=True, slots=True)
class SpillRun:
    """Holdings that go to disk together, oldest first, and the quota taken for them."""

    holdings: tuple[Holding, ...]
    parts: tuple[tuple[pa.RecordBatch, ...], ...]
    taken: int

    @property
    def schema(self) -> pa.Schema:
        return self.parts[-1][0].schema


class Store:
    """Holdings of one kind (splits, or output) of one task."""

    def __init__(self, memory_limit: int, quota: Quota) -> None:
        self.memory_limit = memory_limit
        self.memory = 0
        self.disk = 0
        self._quota = quota
        self._in_memory: dict[Holding, None] = {}

    def fits(self, holding: Holding) -> bool:
        return not holding.size or self.memory + holding.size <= self.memory_limit

    def put(self, holding: Holding) -> None:
        """Keep the holding in memory. The caller checks first whether it fits."""
        self.memory += holding.size
        self._in_memory[holding] = None

    def take_run(self, new: Holding) -> SpillRun | None:
        """The newest holdings, to spill together, with `new` as the last one; None if they are over the quota.

        `new` is not in the store yet. The caller writes the run's batches, then calls `spilled`, or `give_back` if the
        write failed.
        """
        target = min(_RUN_BYTES, self.memory_limit // 2)
        schema = new.batches()[0].schema
        run, size = [new], new.size
        if not has_dictionary(schema):
            for holding in reversed(self._in_memory):
                if size >= target or not holding.count or not holding.batches()[0].schema.equals(schema):
                    break
                run.append(holding)
                size += holding.size
        taken = size + FILE_MARGIN
        if not self._quota.take(taken):
            run, taken = [new], new.size + FILE_MARGIN
            if not self._quota.take(taken):
                return None
        run.reverse()
        return SpillRun(tuple(run), tuple(holding.batches() for holding in run), taken)

    def spilled(self, run: SpillRun, file: SpillFile) -> None:
        """Record that the run is in the file. Holdings that were freed during the write stay freed."""
        self._quota.give(run.taken - file.size)
        self.disk += file.size
        first = 0
        for position, holding in enumerate(run.holdings):
            kept = holding in self._in_memory
            if kept:
                self.memory -= holding.size
                del self._in_memory[holding]
            if kept or position == len(run.holdings) - 1:
                holding.move_to(file, first)
            first += holding.count
        # the last holding is new and not freed, so the file has at least one holding

    def give_back(self, run: SpillRun) -> None:
        self._quota.give(run.taken)

    def free(self, holding: Holding) -> None:
        """Forget the holding. Its memory is given back at once; its file, once no other holding is in the file."""
        if holding in self._in_memory:
            self.memory -= holding.size
            del self._in_memory[holding]
        file = holding.file
        if file is not None:
            file.holdings -= 1
            if not file.holdings:
                self._quota.give(file.size)
                self.disk -= file.size
                file.path.unlink(missing_ok=True)
        holding.drop()


def _failed(error: OSError) -> Exhausted:
    return Exhausted(f"spilling to disk failed: {error}", reason="SPILL_FAILED")


def has_dictionary(schema: pa.Schema) -> bool:
    """True if a column holds dictionaries: they may differ from batch to batch, which one IPC file cannot hold."""
    return any(_contains_dictionary(field.type) for field in schema)


def _contains_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return True
    return any(_contains_dictionary(type_.field(index).type) for index in range(type_.num_fields))
