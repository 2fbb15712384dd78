"""A Dataset over files of the checkpoint store."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ...proto.dataset import Dataset
from ...proto.errors import Refused
from ...proto.values import FileSplit
from ..checkpoints.manifest import Part


class KeptDataset(Dataset):
    """Its rows are those of `parts`, one after the other, which are files in `folder`. `remove` takes them away; it is
    called when nothing refers to the Dataset any more, and when the process ends.
    """

    def __init__(self, schema: pa.Schema, parts: Sequence[Part], folder: Path, remove: Callable[[], None]) -> None:
        self.schema = schema
        self.rows = sum(part.rows for part in parts)
        self._parts = tuple(parts)
        self._folder = folder
        self._mapped: dict[str, Sequence[pa.RecordBatch]] = {}
        self._remove = weakref.finalize(self, remove)

    @property
    def size(self) -> int:
        return sum({part.digest: part.size for part in self._parts}.values())

    @property
    def files(self) -> int:
        return len(self._parts)

    @property
    def closed(self) -> bool:
        return not self._remove.alive

    def partitions(self) -> Sequence[Sequence[pa.RecordBatch]]:
        self._check()
        return [self._batches_of(self._parts)]

    def splits(self) -> Sequence[FileSplit]:
        self._check()
        return [FileSplit(str(self._folder / part.file), format="arrow") for part in self._parts]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._check()
        return self._batches()

    def close(self) -> None:
        self._remove()
        self._mapped.clear()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            self._check()
            yield from self._of(part)

    def _batches_of(self, parts: Sequence[Part]) -> Sequence[pa.RecordBatch]:
        return [batch for part in parts for batch in self._of(part)]

    def _of(self, part: Part) -> Sequence[pa.RecordBatch]:
        """A file is opened once."""
        found = self._mapped.get(part.file)
        if found is None:
            found = self._mapped[part.file] = rows_of(self._folder, part)
        return found

    def _check(self) -> None:
        if self.closed:
            raise Refused("the Dataset was closed, and its files are gone: make it again", reason="DATASET_CLOSED")


def rows_of(folder: Path, part: Part) -> Sequence[pa.RecordBatch]:
    """The rows of a file, mapped into memory."""
    with pa.memory_map(str(folder / part.file)) as source:
        reader = pa.ipc.open_file(source)
        return [reader.get_batch(at) for at in range(reader.num_record_batches)]
