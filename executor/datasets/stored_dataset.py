"""A Dataset over its files."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from ...operators.core.row_reader import RowReader, reader_of
from ...proto.dataset import Dataset
from ...proto.values import FileSplit
from .dataset_files import DatasetFile, DatasetFiles


class KeptDataset(Dataset):
    """A Dataset whose rows are those of `files`, one after the other.

    The files are removed when nothing refers to the Dataset any more, and when the process ends.
    """

    def __init__(self, schema: pa.Schema, store: DatasetFiles, files: Sequence[DatasetFile]) -> None:
        self.schema = schema
        self.rows = sum(file.rows for file in files)
        self._store = store
        self._files = tuple(files)
        self._remove = weakref.finalize(self, store.remove)

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files)

    @property
    def files(self) -> int:
        return len(self._files)

    @property
    def closed(self) -> bool:
        return not self._remove.alive

    def partitions(self) -> Sequence[Sequence[pa.RecordBatch]]:
        self._check()
        return [self._batches_of(self._files)]

    def partition_files(self) -> Sequence[Sequence[str]]:
        self._check()
        return [self._paths(self._files)]

    def splits(self) -> Sequence[FileSplit]:
        self._check()
        return [FileSplit(path, format="arrow") for path in self._paths(self._files)]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._check()
        return self._batches()

    def close(self) -> None:
        self._remove()

    def readers(self) -> Sequence[tuple[int, RowReader]]:
        """The number of rows of each partition, and a reader of them, which has one file in memory at a time."""
        self._check()
        return [self._reader(self._files)]

    def _reader(self, files: Sequence[DatasetFile]) -> tuple[int, RowReader]:
        return sum(file.rows for file in files), partial(self._between, files)

    def _between(self, files: Sequence[DatasetFile], start: int, end: int) -> Iterator[pa.RecordBatch]:
        before = 0
        for file in files:
            low, high = max(start - before, 0), min(end - before, file.rows)
            if low < high:
                whole = high - low == file.rows
                yield from self._store.read(file) if whole else reader_of(self._store.read(file))(low, high)
            before += file.rows

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            yield from self._store.read(file)

    def _batches_of(self, files: Sequence[DatasetFile]) -> Sequence[pa.RecordBatch]:
        return [batch for file in files for batch in self._store.read(file)]

    def _paths(self, files: Sequence[DatasetFile]) -> Sequence[str]:
        return [str(self._store.path(file)) for file in files]

    def _check(self) -> None:
        self._store.check()
