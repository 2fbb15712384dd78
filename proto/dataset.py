"""A Dataset: rows in files that never change."""

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
    """Rows in `partitions` parts by the hash of their key, in arrival order inside a part. A look-up reads one part.

    >>> dataset = client.dataset(monday, keyed=tidegate.Hashed(("item",), partitions=4))
    >>> len(dataset.partitions()), dataset.lookup("cup").num_rows
    (4, 1)
    """

    columns: tuple[str, ...]
    partitions: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):  # its letters would be the columns
            object.__setattr__(self, "columns", (self.columns,))


@dataclass(frozen=True, slots=True)
class Ranged:
    """Rows sorted by a column, ascending, nulls last, ties in arrival order. Keys and ranges are found by their
    position.

    >>> dataset = client.dataset(monday, keyed=tidegate.Ranged("amount"))
    >>> dataset.range(4, 9).column("amount").to_pylist()
    [4, 8]
    """

    column: str


Keyed: TypeAlias = Hashed | Ranged


class Dataset(ABC):
    """The rows of a graph's result. It can be iterated any number of times, even after its graph and its client are
    gone.

    The files of a Dataset are removed when nothing refers to the Dataset any more, when it is closed, or when the
    process ends. Rows that were read stay valid. A Dataset speaks the Arrow C stream protocol.

    >>> dataset = client.run_graph(graph)
    >>> dataset.rows, dataset.schema.names
    (2, ['item', 'total'])
    >>> [batch.num_rows for batch in dataset]
    [2]
    >>> dataset.close()
    """

    schema: pa.Schema
    rows: int

    @property
    @abstractmethod
    def size(self) -> int:
        """The bytes of the Dataset's files."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True once the Dataset is closed: its files are gone."""

    @abstractmethod
    def partitions(self) -> Sequence[Sequence[pa.RecordBatch]]:
        """The batches of each partition, in order, mapped from their files: rows that have not been read take no
        memory.
        """

    @abstractmethod
    def partition_files(self) -> Sequence[Sequence[str]]:
        """The files of each partition, in order. They exist as long as the Dataset does."""

    @abstractmethod
    def splits(self) -> Sequence[FileSplit]:
        """The Dataset's files, in order, as splits for a task. They exist as long as the Dataset does."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The Dataset's batches, in order. Each is read from its file when the iterator reaches it."""

    @abstractmethod
    def close(self) -> None:
        """Remove the Dataset's files. A second call does nothing."""

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
    """A Dataset whose rows can be looked up. An iteration goes through its parts one after the other.

    >>> with client.dataset(monday, keyed=tidegate.Hashed(("item",))) as sales:
    ...     print(sales.lookup("tea").column("amount").to_pylist())
    [3, 4]
    """

    keyed: Keyed

    @abstractmethod
    def lookup(self, *key: Any) -> pa.Table:
        """The rows with this key (a value for each key column, None for null), in arrival order."""

    @abstractmethod
    def range(self, low: Any = None, high: Any = None) -> pa.Table:
        """The rows whose key is at least `low` and below `high`, in order. A bound of None is no bound; rows whose key
        is null are in no range. Only a `Ranged` Dataset has ranges.
        """
