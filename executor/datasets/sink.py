"""Stores each epoch's rows as a Dataset, instead of as a result that a client reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from ...operators.core.operator import Stream
from ...operators.core.streams import none_of
from ...operators.writing.staged_write import Written
from ...proto.dataset import Keyed
from ...proto.errors import NotFound
from .dataset_writer import DatasetWriter, adopted
from .stored_dataset import KeptDataset
from .write_dataset import Layout, check_key


class DatasetSink:
    """Makes an epoch's rows a Dataset at its barrier, or leaves nothing behind.

    A Dataset that nobody has taken when the task ends is dropped with the task.
    """

    schema = pa.schema([])
    plan_path = "result"

    def __init__(self, table: pa.Schema, parent: Path, keyed: Keyed | None) -> None:
        check_key(table, keyed)  # before anything runs
        self.table = table
        self.keyed = keyed
        self._parent = parent
        self._epoch = 0
        self._writer: DatasetWriter | None = None
        self._made: KeptDataset | None = None
        self._kept: dict[int, KeptDataset] = {}

    def begin(self, epoch: int) -> None:
        self.drop()
        self._epoch = epoch

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        writer = self._writer = DatasetWriter(self.table, self._parent, self.keyed)
        with closing(rows):
            writer.add_all(rows)
        self._made, self._writer = writer.finish(), None
        yield from ()

    def commit(self) -> Written:
        dataset, self._made = self._made, None
        if dataset is None:
            return Written()
        self._kept[self._epoch] = dataset
        return Written(rows=dataset.rows, bytes=dataset.size, files=dataset.files)

    def drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.drop()
        if self._made is not None:
            self._made.close()
            self._made = None

    def take(self, epoch: int) -> KeptDataset:
        kept = self._kept.pop(epoch, None)
        if kept is None:
            raise NotFound(
                f"there is no Dataset of epoch {epoch}: the epoch made none, or the Dataset has been taken already",
                reason="UNKNOWN_DATASET",
            )
        return kept

    def close(self) -> None:
        self.drop()
        while self._kept:
            self._kept.popitem()[1].close()


class AdoptingSink(DatasetSink):
    """A sink for rows that other processes have written to files already. The rows themselves do not come here."""

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        return none_of(inputs, "a Dataset")

    def adopt(self, layouts: Sequence[tuple[Path, Layout]], parent: Path | None = None) -> KeptDataset:
        """Take the channels' files, in their order, as the epoch's Dataset. It is below `parent`, if given."""
        self._made = adopted(self.table, layouts, parent or self._parent, self.keyed)
        return self._made
