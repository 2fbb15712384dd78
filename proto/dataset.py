"""A Dataset: rows that are there, in files, and never change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from .values import FileSplit


class Dataset(ABC):
    """The rows that a graph ended in. Iterable as often as one likes, whatever became of its graph and its client.

    Its files go with it: when nothing refers to it any more, when it is closed, or with the process. What was read of
    it stays good. Speaks the Arrow C stream protocol.
    """

    schema: pa.Schema
    rows: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of its files."""

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @abstractmethod
    def splits(self) -> Sequence[FileSplit]:
        """Its files, in order, as splits of a task's; they are there as long as the Dataset is."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Its batches, in order, read from their files as they are asked for."""

    @abstractmethod
    def close(self) -> None:
        """Remove its files. More than once is harmless."""

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(list(self), self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, iter(self)).__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tidegate.Dataset: {self.rows:,} rows{', closed' if self.closed else ''}>"
