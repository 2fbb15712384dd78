"""A Dataset: rows that are there, in files, and never change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from .values import FileSplit


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows in `partitions` parts by the hash of their key, in each as they came: one is looked up in one part."""

    columns: tuple[str, ...]
    partitions: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):  # its letters would be the columns
            object.__setattr__(self, "columns", (self.columns,))


@dataclass(frozen=True, slots=True)
class Ranged:
    """Rows sorted by a column, ascending, nulls last, ties as they came: keys and ranges are found where they lie."""

    column: str


Keyed: TypeAlias = Hashed | Ranged


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
    def partitions(self) -> Sequence[Sequence[pa.RecordBatch]]:
        """The batches of each partition, in order, mapped from their files: what has not been read takes no memory."""

    @abstractmethod
    def partition_files(self) -> Sequence[Sequence[str]]:
        """The files of each partition, in order. They are there as long as it is."""

    @abstractmethod
    def splits(self) -> Sequence[FileSplit]:
        """Its files, in order, as splits of a task's. They are there as long as it is."""

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


class KeyedDataset(Dataset):
    """A Dataset whose rows can be looked up. Iterating it goes through its parts one after the other."""

    keyed: Keyed

    @abstractmethod
    def lookup(self, *key: Any) -> pa.Table:
        """The rows with this key, a value for each of its columns, in the order in which they came; None is null."""

    @abstractmethod
    def range(self, low: Any = None, high: Any = None) -> pa.Table:
        """The rows whose key is at least `low` and below `high`, in order; a bound that is None is none, and rows
        without a key are in no range. Only of `Ranged` ones.
        """
