"""A task's rows, kept as a Dataset an epoch instead of being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from ...operators.operator import Stream
from ...operators.writing.staged import Written
from ...proto.dataset import Keyed
from ...proto.errors import NotFound
from .dataset import KeptDataset
from .writing import DatasetWriter, writer_of


class DatasetSink:
    """What an epoch does outside of its task: its rows become a Dataset at its barrier, or leave nothing behind.

    A Dataset that nobody has taken when the task ends is dropped with it.
    """

    schema = pa.schema([])
    place = "result"

    def __init__(self, table: pa.Schema, parent: Path, keyed: Keyed | None) -> None:
        writer_of(table, parent, keyed).drop()  # what cannot be kept so is refused before anything runs
        self.table = table
        self._parent = parent
        self._keyed = keyed
        self._epoch = 0
        self._writer: DatasetWriter | None = None
        self._made: KeptDataset | None = None
        self._kept: dict[int, KeptDataset] = {}

    def begin(self, epoch: int) -> None:
        self.drop()
        self._epoch = epoch

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        writer = self._writer = writer_of(self.table, self._parent, self._keyed)
        with closing(rows):
            writer.add_all(rows)
        self._made, self._writer = writer.finish(), None
        yield from ()

    def commit(self) -> Written:
        made, self._made = self._made, None
        if made is None:
            return Written()
        self._kept[self._epoch] = made
        return Written(rows=made.rows, bytes=made.size, files=made.files)

    def drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.drop()
        if self._made is not None:
            self._made.close()
            self._made = None

    def take(self, epoch: int) -> KeptDataset:
        found = self._kept.pop(epoch, None)
        if found is None:
            raise NotFound(f"nothing is kept of epoch {epoch}, or not any more", reason="UNKNOWN_DATASET")
        return found

    def close(self) -> None:
        self.drop()
        while self._kept:
            self._kept.popitem()[1].close()
