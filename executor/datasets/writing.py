"""Making a Dataset: rows into files, in the checkpoint store's format, then the manifest that names them."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from ...operators.blocks import blocks
from ...proto.errors import Exhausted
from ..checkpoints.disk import LocalDisk
from ..checkpoints.folder import CheckpointFolder
from ..checkpoints.manifest import Manifest, Origin, Part, StateTable
from .dataset import KeptDataset
from .place import new_folder

PART_BLOCKS: Final = 4
"""Blocks of a file: few enough to be held, many enough to be worth a file."""

NAME: Final = "dataset"
TABLE: Final = "rows"
VERSION: Final = 1


class DatasetWriter:
    """`add` blocks, then `finish`, or `drop` what was written. Files are cut by rows: the same rows, the same files."""

    def __init__(self, schema: pa.Schema, parent: Path) -> None:
        self.schema = schema
        self._path, self._remove = new_folder(parent)
        self._folder = CheckpointFolder(_Scratch(), self._path)
        self._held: list[pa.RecordBatch] = []
        self._parts: list[Part] = []

    def add(self, block: pa.RecordBatch) -> None:
        self._held.append(block)
        if len(self._held) == PART_BLOCKS:
            self._put()

    def finish(self) -> KeptDataset:
        if self._held:
            self._put()
        table = StateTable(name=TABLE, version=VERSION, parts=tuple(self._parts))
        try:
            self._folder.commit(_manifest(table))
        except OSError as error:
            raise _full(error) from error
        return KeptDataset(self.schema, self._parts, self._path, self._remove)

    def drop(self) -> None:
        """More than once is harmless."""
        self._held.clear()
        self._remove()

    def _put(self) -> None:
        table = pa.Table.from_batches(self._held, self.schema).unify_dictionaries()
        self._held.clear()
        try:
            self._parts.append(self._folder.put(table))
        except OSError as error:
            raise _full(error) from error


def dataset_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch], parent: Path) -> KeptDataset:
    """A Dataset of these rows, in a folder below `parent`."""
    writer = DatasetWriter(schema, parent)
    try:
        for block in blocks(batches):
            writer.add(block)
        return writer.finish()
    except BaseException:
        writer.drop()
        raise


class _Scratch(LocalDisk):
    """Files that go with the process need not outlive a crash."""

    def sync(self, file: BinaryIO) -> None:
        file.flush()

    def sync_names(self, folder: Path) -> None:
        """Nobody looks for them after a crash."""


def _manifest(table: StateTable) -> Manifest:
    engines = {"tidegate": importlib.metadata.version("tidegate"), "pyarrow": pa.__version__}
    origin = Origin(plan="", meaning="", options={}, tables={}, engines=engines)
    return Manifest(
        name=NAME,
        epoch=1,
        taken_us=time.time_ns() // 1000,
        watermark=None,
        sources={},
        origin=origin,
        tables=(table,),
    )


def _full(error: OSError) -> Exhausted:
    return Exhausted(f"a Dataset cannot be written: {error}", reason="SPILL_FAILED")
