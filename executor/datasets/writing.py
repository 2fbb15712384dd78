"""Making a Dataset: rows into files, in the checkpoint store's format, then the manifest that names them.

The tables of the manifest are the Dataset's partitions, the only one of a Dataset that has none.
"""

from __future__ import annotations

import importlib.metadata
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import concat_batches

from ...operators.blocks import BLOCK_ROWS, blocks
from ...operators.casts import plain
from ...operators.hashing import MAX_CHANNELS
from ...operators.ordering import Order, Ordering, obstacle
from ...operators.routing import HashRouting
from ...operators.sizes import batch_bytes
from ...operators.sorted_merge import merged
from ...operators.streams import BatchStream
from ...proto.dataset import Hashed, Keyed, Ranged
from ...proto.errors import Exhausted, InvalidRequest
from ..checkpoints.disk import LocalDisk
from ..checkpoints.folder import CheckpointFolder
from ..checkpoints.manifest import Manifest, Origin, Part, StateTable
from .dataset import KeptDataset, rows_of
from .keyed import Bounded, HashedDataset, RangedDataset, bounded
from .place import new_folder

PART_BLOCKS: Final = 4
"""Blocks of a file: few enough to be held, many enough to be worth a file."""

MOST_TOGETHER: Final = 1 << 30
"""Bytes of rows that are put together as one batch, whose columns of text have an end at 2 GiB."""

RUN_BLOCKS: Final = 16
"""Blocks that are sorted at a time."""

NAME: Final = "dataset"
TABLE: Final = "rows"
VERSION: Final = 1


class DatasetWriter(ABC):
    """`add` blocks, then `finish`, or `drop` what was written. The same rows make the same files."""

    def __init__(self, schema: pa.Schema, parent: Path) -> None:
        self.schema = schema
        self._path, self._remove = new_folder(parent)
        self._folder = CheckpointFolder(_Scratch(), self._path)

    @abstractmethod
    def add(self, block: pa.RecordBatch) -> None: ...

    @abstractmethod
    def finish(self) -> KeptDataset: ...

    def drop(self) -> None:
        """More than once is harmless."""
        self._remove()

    def _put(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """A file of these."""
        table = pa.Table.from_batches(batches, self.schema).unify_dictionaries()
        with _told():
            return self._folder.put(table)

    def _commit(self, tables: Iterable[Sequence[Part]]) -> None:
        """From here on the folder says what is in it."""
        named = [StateTable(name=f"{TABLE}{at}", version=VERSION, parts=tuple(each)) for at, each in enumerate(tables)]
        with _told():
            self._folder.commit(_manifest(tuple(named)))


class _Plain(DatasetWriter):
    """Rows in the order in which they come."""

    def __init__(self, schema: pa.Schema, parent: Path) -> None:
        super().__init__(schema, parent)
        self._held: list[pa.RecordBatch] = []
        self._parts: list[Part] = []

    def add(self, block: pa.RecordBatch) -> None:
        self._held.append(block)
        if len(self._held) == PART_BLOCKS:
            self._flush()

    def finish(self) -> KeptDataset:
        if self._held:
            self._flush()
        self._commit([self._parts])
        return KeptDataset(self.schema, self._parts, self._path, self._remove)

    def _flush(self) -> None:
        self._parts.append(self._put(self._held))
        self._held = []


class _Hashed(DatasetWriter):
    """Rows dealt by the hash of their key; of each partition at most a block's rows and as many more are held.

    A file has a block, so that who reads a partition in blocks need not put them together again.
    """

    def __init__(self, schema: pa.Schema, parent: Path, keyed: Hashed) -> None:
        super().__init__(schema, parent)
        self._keyed = keyed
        keys = tuple(schema.names.index(column) for column in keyed.columns)
        self._routing = HashRouting(schema, keys, keyed.partitions)
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(keyed.partitions)]
        self._parts: list[list[Part]] = [[] for _ in range(keyed.partitions)]

    def add(self, block: pa.RecordBatch) -> None:
        for partition, rows in enumerate(self._routing.slices(block, 0, 0)):
            if rows.num_rows:
                if self._held[partition] and not _fit_together([*self._held[partition], rows]):
                    self._flush(partition)
                self._held[partition].append(rows)
                if sum(batch.num_rows for batch in self._held[partition]) >= BLOCK_ROWS:
                    self._flush(partition, BLOCK_ROWS)

    def finish(self) -> HashedDataset:
        for partition, held in enumerate(self._held):
            if held:
                self._flush(partition)
        self._commit(self._parts)
        return HashedDataset(self.schema, self._parts, self._path, self._remove, self._keyed)

    def _flush(self, partition: int, rows: int | None = None) -> None:
        """Write so many of the rows that are held, or all."""
        together = concat_batches(self._held[partition])
        self._parts[partition].append(self._put([together.slice(0, rows)]))
        self._held[partition] = [] if rows in (None, together.num_rows) else [together.slice(rows)]


class _Ranged(DatasetWriter):
    """Rows sorted by their key: so many blocks at a time, which are merged in the end."""

    def __init__(self, schema: pa.Schema, parent: Path, keyed: Ranged) -> None:
        super().__init__(schema, parent)
        self._keyed = keyed
        self._ordering = Ordering([Order(column=schema.names.index(keyed.column))])
        self._held: list[pa.RecordBatch] = []
        self._runs: list[tuple[Part, ...]] = []

    def add(self, block: pa.RecordBatch) -> None:
        if self._held and not _fit_together([*self._held, block]):
            self._sort()
        self._held.append(block)
        if len(self._held) == RUN_BLOCKS:
            self._sort()

    def finish(self) -> RangedDataset:
        if self._held:
            self._sort()
        bounded = [self._bounded(part) for run in self._merged() for part in run]
        self._commit([[each.part for each in bounded]])
        self._folder.collect()  # the runs that were merged are no part of it
        return RangedDataset(self.schema, bounded, self._path, self._remove, self._keyed)

    def _sort(self) -> None:
        together = concat_batches(self._held)
        self._held = []
        order = pc.sort_indices(together, sort_keys=[(self._keyed.column, "ascending")])  # stable; nulls at the end
        self._runs.append(self._written(blocks([pc.take(together, order, boundscheck=False)])))

    def _merged(self) -> Sequence[tuple[Part, ...]]:
        if len(self._runs) < 2:
            return self._runs
        streams = [BatchStream(self.schema, self._rows(run)) for run in self._runs]
        with closing(merged(streams, self._ordering)) as rows:
            return [self._written(blocks(rows))]

    def _written(self, sorted_blocks: Iterable[pa.RecordBatch]) -> tuple[Part, ...]:
        return tuple(self._put([block]) for block in sorted_blocks)

    def _rows(self, parts: Iterable[Part]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield from rows_of(self._path, part)

    def _bounded(self, part: Part) -> Bounded:
        return bounded(part, pa.Table.from_batches(rows_of(self._path, part), self.schema).column(self._keyed.column))


def _fit_together(batches: Sequence[pa.RecordBatch]) -> bool:
    return sum(map(batch_bytes, batches)) <= MOST_TOGETHER


def writer_of(schema: pa.Schema, parent: Path, keyed: Keyed | None = None) -> DatasetWriter:
    """What makes a Dataset of this kind; `InvalidRequest` where its rows have no such key."""
    match keyed:
        case None:
            return _Plain(schema, parent)
        case Hashed():
            _check_key(schema, keyed.columns)
            if type(keyed.partitions) is not int or not 1 <= keyed.partitions <= MAX_CHANNELS:
                text = f"a Dataset has 1 to {MAX_CHANNELS} partitions, not {keyed.partitions!r}"
                raise InvalidRequest(text, reason="DATASET_KEY")
            return _Hashed(schema, parent, keyed)
        case Ranged():
            _check_key(schema, (keyed.column,))
            return _Ranged(schema, parent, keyed)
        case _:
            assert_never(keyed)


def dataset_of(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], parent: Path, keyed: Keyed | None = None
) -> KeptDataset:
    """A Dataset of these rows, in a folder below `parent`."""
    writer = writer_of(schema, parent, keyed)
    try:
        for block in blocks(batches):
            writer.add(block)
        return writer.finish()
    except BaseException:
        writer.drop()
        raise


def _check_key(schema: pa.Schema, columns: Sequence[str]) -> None:
    if not columns:
        raise InvalidRequest("the key of a Dataset has at least one column", reason="DATASET_KEY")
    for column in columns:
        if schema.names.count(column) != 1:
            there = ", ".join(schema.names)
            raise InvalidRequest(f"a Dataset's key has one column {column!r} of: {there}", reason="DATASET_KEY")
        type_ = schema.field(column).type
        if obstacle(type_) is not None or plain(type_) not in (type_, pa.string(), pa.binary()):
            text = f"column {column!r} of type {type_} cannot be the key of a Dataset"
            raise InvalidRequest(text, reason="DATASET_KEY")


@contextmanager
def _told() -> Iterator[None]:
    """A disk that is full or fails."""
    try:
        yield
    except OSError as error:
        raise Exhausted(f"a Dataset cannot be written: {error}", reason="SPILL_FAILED") from error


class _Scratch(LocalDisk):
    """Files that go with the process need not outlive a crash."""

    def sync(self, file: BinaryIO) -> None:
        file.flush()

    def sync_names(self, folder: Path) -> None:
        """Nobody looks for them after a crash."""


@cache
def _version() -> str:
    return importlib.metadata.version("tidegate")


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
