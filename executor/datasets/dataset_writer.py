"""Makes Datasets: from rows, which are written here, or from files that are already written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import assert_never

import pyarrow as pa

from ...proto.dataset import Hashed, Keyed, Ranged
from .dataset_files import DatasetFiles
from .keyed_dataset import HashedDataset, RangedDataset
from .stored_dataset import KeptDataset
from .write_dataset import Layout, check_key, file_writer


class DatasetWriter:
    """Writes a Dataset: `add_all` rows, then `finish`, or `drop` the written files.

    Raises `InvalidRequest` if the rows cannot have the key.
    """

    def __init__(self, schema: pa.Schema, parent: Path, keyed: Keyed | None) -> None:
        check_key(schema, keyed)
        self._schema = schema
        self._keyed = keyed
        self._store = DatasetFiles(parent)
        self._files = file_writer(schema, self._store, keyed)

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._files.add_all(batches)

    def finish(self) -> KeptDataset:
        return _committed(self._schema, self._store, self._keyed, self._files.end())

    def drop(self) -> None:
        """Remove the written files. May be called more than once."""
        self._store.remove()


def dataset_of(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], parent: Path, keyed: Keyed | None = None
) -> KeptDataset:
    """A Dataset of these rows, in a folder below `parent`."""
    writer = DatasetWriter(schema, parent, keyed)
    try:
        writer.add_all(batches)
        return writer.finish()
    except BaseException:
        writer.drop()
        raise


def adopted(
    schema: pa.Schema, layouts: Sequence[tuple[Path, Layout]], parent: Path, keyed: Keyed | None = None
) -> KeptDataset:
    """A Dataset of files that others have written, each to a folder of its own; the files are moved.

    Its rows are the folders' rows, one folder after the other. Sorted rows come from one folder.
    """
    store = DatasetFiles(parent)
    try:
        for folder, layout in layouts:
            store.adopt(folder, layout.files)
        together = zip(*(layout.tables for _, layout in layouts), strict=True)
        whole = Layout(
            tables=tuple(tuple(file for some in files for file in some) for files in together),
            bounds=tuple(bound for _, layout in layouts for bound in layout.bounds),
        )
        return _committed(schema, store, keyed, whole)
    except BaseException:
        store.remove()
        raise


def _committed(schema: pa.Schema, store: DatasetFiles, keyed: Keyed | None, layout: Layout) -> KeptDataset:
    store.commit(layout.tables)
    match keyed:
        case None:
            return KeptDataset(schema, store, layout.files)
        case Hashed():
            return HashedDataset(schema, store, layout.tables, keyed)
        case Ranged():
            return RangedDataset(schema, store, layout.bounds, keyed)
        case _:
            assert_never(keyed)
