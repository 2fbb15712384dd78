"""Writes the files of a Dataset: one writer writes all of them, or one writer per channel.

The tables are the Dataset's partitions. A Dataset without partitions has one table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import concat_batches

from ...operators.arrays.casts import plain
from ...operators.arrays.hashing import MAX_CHANNELS
from ...operators.arrays.ordering import Order, Ordering, obstacle
from ...operators.arrays.sorted_merge import merged
from ...operators.core.blocks import BLOCK_ROWS, blocks
from ...operators.core.sizes import batch_bytes
from ...operators.core.streams import BatchStream
from ...proto.dataset import Hashed, Keyed, Ranged
from ...proto.errors import InvalidRequest
from ..exchange.routing import HashRouting
from .dataset_files import DatasetFile
from .keyed_dataset import Bounded, bounded

PART_BLOCKS: Final = 4
"""Blocks of a file: few enough to hold in memory, enough to be worth a file."""

MOST_TOGETHER: Final = 1 << 30
"""The most bytes of rows in one batch. A text column of a batch cannot have more than 2 GiB."""

RUN_BLOCKS: Final = 16
"""Blocks that are sorted at a time."""


Tables: TypeAlias = tuple[tuple[DatasetFile, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files of each table, in order. For sorted rows, also each file's bounds."""

    tables: Tables
    bounds: tuple[Bounded, ...] = ()

    @property
    def files(self) -> tuple[DatasetFile, ...]:
        return tuple(file for some in self.tables for file in some)


class Store(Protocol):
    """A place to put files in."""

    def put(self, table: pa.Table, *, own: bool) -> DatasetFile: ...

    def read(self, file: DatasetFile) -> Sequence[pa.RecordBatch]: ...


class FileWriter(ABC):
    """Writes rows: `add_all` rows, then `end`. The same rows make the same files."""

    def __init__(self, schema: pa.Schema, store: Store) -> None:
        self.schema = schema
        self._store = store

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        for block in blocks(batches):
            self.add(block)

    @abstractmethod
    def add(self, block: pa.RecordBatch) -> None:
        """Add the rows of a block. The last block is short."""

    @abstractmethod
    def end(self) -> Layout: ...

    def _put(self, batches: Sequence[pa.RecordBatch], *, own: bool) -> DatasetFile:
        """Put these batches into a file.

        Batches that are not the writer's `own` may be changed later by whoever made them.
        """
        return self._store.put(pa.Table.from_batches(batches, self.schema).unify_dictionaries(), own=own)


class _Plain(FileWriter):
    """Writes rows in the order in which they come."""

    def __init__(self, schema: pa.Schema, store: Store) -> None:
        super().__init__(schema, store)
        self._held: list[pa.RecordBatch] = []
        self._files: list[DatasetFile] = []

    def add(self, block: pa.RecordBatch) -> None:
        self._held.append(block)
        if len(self._held) == PART_BLOCKS:
            self._flush()

    def end(self) -> Layout:
        if self._held:
            self._flush()
        return Layout(tables=(tuple(self._files),))

    def _flush(self) -> None:
        self._files.append(self._put(self._held, own=False))
        self._held = []


class _Hashed(FileWriter):
    """Writes rows dealt by the hash of their key. It holds at most two blocks of rows per partition.

    A file has one block, so that a reader of blocks need not join files.
    """

    def __init__(self, schema: pa.Schema, store: Store, keyed: Hashed) -> None:
        super().__init__(schema, store)
        self._keyed = keyed
        keys = tuple(schema.names.index(column) for column in keyed.columns)
        self._routing = HashRouting(schema, keys, keyed.partitions)
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(keyed.partitions)]
        self._files: list[list[DatasetFile]] = [[] for _ in range(keyed.partitions)]

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add the rows as they come. A file is cut after a block of its partition's rows."""
        for batch in batches:
            for start in range(0, batch.num_rows, BLOCK_ROWS):
                self.add(batch.slice(start, BLOCK_ROWS))

    def add(self, block: pa.RecordBatch) -> None:
        for partition, rows in enumerate(self._routing.slices(block, 0, 0)):
            if rows.num_rows:
                if self._held[partition] and not _fit_together([*self._held[partition], rows]):
                    self._flush(partition)
                self._held[partition].append(rows)
                if sum(batch.num_rows for batch in self._held[partition]) >= BLOCK_ROWS:
                    self._flush(partition, BLOCK_ROWS)

    def end(self) -> Layout:
        for partition, held in enumerate(self._held):
            if held:
                self._flush(partition)
        return Layout(tables=tuple(map(tuple, self._files)))

    def _flush(self, partition: int, rows: int | None = None) -> None:
        """Write `rows` of the partition's held rows, or all of them."""
        held = self._held[partition]
        together = held[0] if len(held) == 1 else concat_batches(held)
        self._files[partition].append(self._put([together.slice(0, rows)], own=self._keyed.partitions > 1))
        self._held[partition] = [] if rows in (None, together.num_rows) else [together.slice(rows)]


class _Ranged(FileWriter):
    """Writes rows sorted by their key: sorts a few blocks at a time, and merges them at the end."""

    def __init__(self, schema: pa.Schema, store: Store, keyed: Ranged) -> None:
        super().__init__(schema, store)
        self._keyed = keyed
        self._ordering = Ordering([Order(column=schema.names.index(keyed.column))])
        self._held: list[pa.RecordBatch] = []
        self._runs: list[tuple[DatasetFile, ...]] = []

    def add(self, block: pa.RecordBatch) -> None:
        if self._held and not _fit_together([*self._held, block]):
            self._sort()
        self._held.append(block)
        if len(self._held) == RUN_BLOCKS:
            self._sort()

    def end(self) -> Layout:
        if self._held:
            self._sort()
        bounds = tuple(self._bounded(file) for run in self._merged() for file in run)
        return Layout(tables=(tuple(bounded_file.file for bounded_file in bounds),), bounds=bounds)

    def _sort(self) -> None:
        together = concat_batches(self._held)
        self._held = []
        order = pc.sort_indices(together, sort_keys=[(self._keyed.column, "ascending")])  # stable, nulls at the end
        self._runs.append(self._written(blocks([pc.take(together, order, boundscheck=False)])))

    def _merged(self) -> Sequence[tuple[DatasetFile, ...]]:
        if len(self._runs) < 2:
            return self._runs
        streams = [BatchStream(self.schema, self._rows(run)) for run in self._runs]
        with closing(merged(streams, self._ordering)) as rows:
            return [self._written(blocks(rows))]

    def _written(self, sorted_blocks: Iterable[pa.RecordBatch]) -> tuple[DatasetFile, ...]:
        return tuple(self._put([block], own=True) for block in sorted_blocks)

    def _rows(self, files: Iterable[DatasetFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from self._store.read(file)

    def _bounded(self, file: DatasetFile) -> Bounded:
        rows = pa.Table.from_batches(self._store.read(file), self.schema)
        return bounded(file, rows.column(self._keyed.column))


def _fit_together(batches: Sequence[pa.RecordBatch]) -> bool:
    return sum(map(batch_bytes, batches)) <= MOST_TOGETHER


def check_key(schema: pa.Schema, keyed: Keyed | None) -> None:
    """Raise `InvalidRequest` if rows of this schema cannot have the key."""
    match keyed:
        case None:
            return
        case Hashed():
            _check_columns(schema, keyed.columns)
            if type(keyed.partitions) is not int or not 1 <= keyed.partitions <= MAX_CHANNELS:
                text = f"a Dataset must have 1 to {MAX_CHANNELS} partitions, not {keyed.partitions!r}"
                raise InvalidRequest(text, reason="DATASET_KEY")
        case Ranged():
            _check_columns(schema, (keyed.column,))
        case _:
            assert_never(keyed)


def file_writer(schema: pa.Schema, store: Store, keyed: Keyed | None) -> FileWriter:
    """The writer of rows of this schema with this key."""
    match keyed:
        case None:
            return _Plain(schema, store)
        case Hashed():
            return _Hashed(schema, store, keyed)
        case Ranged():
            return _Ranged(schema, store, keyed)
        case _:
            assert_never(keyed)


def _check_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    if not columns:
        raise InvalidRequest("the key of a Dataset must have at least one column", reason="DATASET_KEY")
    for column in columns:
        if schema.names.count(column) != 1:
            there = ", ".join(schema.names)
            raise InvalidRequest(
                f"there must be exactly one column {column!r} for the Dataset's key; there are: {there}",
                reason="DATASET_KEY",
            )
        type_ = schema.field(column).type
        if obstacle(type_) is not None or plain(type_) not in (type_, pa.string(), pa.binary()):
            text = f"column {column!r} of type {type_} cannot be the key of a Dataset"
            raise InvalidRequest(text, reason="DATASET_KEY")
