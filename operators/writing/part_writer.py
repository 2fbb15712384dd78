"""Writes a channel's file of an epoch in another process than that which publishes the epoch's files."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from ..core.batches import batch_of
from ..core.blocks import blocks
from .formats import WRITE_FORMATS
from .staged_write import FileNames, HiddenFile, WriteQuota, WrittenPart, hidden, naming
from .table_folder import TableFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The files of an epoch: their folder, names and format, and the columns in them.

    `returned` are the columns to hand on, whose schema is `schema`; None: no rows are handed on.
    """

    folder: TableFolder
    names: FileNames
    format: str
    table: pa.Schema
    returned: tuple[int, ...] | None
    schema: pa.Schema
    quota: WriteQuota


class PartWriter:
    """Writes the file of a channel under a name of this attempt alone. `part` is the file, if there were rows."""

    def __init__(self, target: WriteTarget, *, pipeline: int, channel: int) -> None:
        self.part: WrittenPart | None = None
        self._target = target
        self._name = target.names.part(pipeline, channel)

    def run(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Write the rows; yields those to hand on. A run that is not exhausted leaves no file."""
        target = self._target
        with naming(target.folder.name):
            folder = target.folder.open(make=False)
        with closing(folder):
            file = HiddenFile(folder, hidden(self._name, uuid.uuid4().hex), WRITE_FORMATS[target.format], target.table)
            try:
                yield from self._written(file, rows)
            except BaseException:
                file.drop()
                raise

    def _written(self, file: HiddenFile, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = self._target
        table = target.folder.name
        for block in blocks(rows):
            with naming(table):
                file.add(block)
            target.quota.check(table, target.names.epoch, file.bytes)
            if target.returned is not None:
                columns = [block.column(index) for index in target.returned]
                yield batch_of(columns, block.num_rows, target.schema)
        with naming(table):
            file.finish()
        target.quota.check(table, target.names.epoch, file.bytes)
        if file.exists:
            self.part = WrittenPart(hidden=file.name, name=self._name, rows=file.rows, bytes=file.bytes)
