"""The rows of the training cases, and their readers: the loader, and peers that shuffle the same windows with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate
from tidegate.training import Loader, Shuffle

from .data_files import whole

FILES, COLUMNS, TOKENS = 8, 20, 2_048


@dataclass(frozen=True)
class Kind:
    """Rows of Parquet files, with the size of a window and of a batch of them. `first` is a column.

    Columns of lists have lists of `shapes`.
    """

    name: str
    table: Callable[[np.random.Generator, int], pa.Table]
    schema: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    first: str
    group_rows: int
    window: int
    batch: int

    def files(self, data: Path, rows: int) -> Path:
        """A folder with files of so many rows in all."""
        return whole(data / f"{self.name}-{rows}", lambda folder: self._write(folder, rows))

    def _write(self, folder: Path, rows: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(6)
        for number in range(FILES):
            pq.write_table(
                self.table(random, rows // FILES),
                folder / f"{number}.parquet",
                row_group_size=self.group_rows,
                compression="none",
                use_dictionary=False,
            )

    def arrays(self, table: pa.Table) -> dict[str, npt.NDArray[Any]]:
        """The columns as NumPy arrays."""
        return {name: self._array(name, table[name]) for name in table.column_names}

    def _array(self, name: str, column: pa.ChunkedArray) -> npt.NDArray[Any]:
        has_lists = name in self.shapes
        values = pa.chunked_array([chunk.flatten() for chunk in column.chunks]) if has_lists else column
        array: npt.NDArray[Any] = values.to_numpy()
        return array.reshape(len(column), *self.shapes[name]) if has_lists else array


def _numbers(random: np.random.Generator, rows: int) -> pa.Table:
    return pa.table({f"c{column}": random.random(rows) for column in range(COLUMNS)})


def _lists(random: np.random.Generator, rows: int) -> pa.Table:
    tokens = pa.array(random.integers(0, 50_000, rows * TOKENS, np.int32))
    offsets = np.arange(0, rows * TOKENS + 1, TOKENS, dtype=np.int32)
    return pa.table({"tokens": pa.ListArray.from_arrays(offsets, tokens)})


WIDE = Kind(
    name="training",
    table=_numbers,
    schema={f"c{column}": sub.fp64 for column in range(COLUMNS)},
    shapes={},
    first="c0",
    group_rows=65_536,
    window=131_072,
    batch=1_024,
)
LISTS = Kind(
    name="training-tokens",
    table=_lists,
    schema={"tokens": sub.list_(sub.i32())},
    shapes={"tokens": (TOKENS,)},
    first="tokens",
    group_rows=4_096,
    window=16_384,
    batch=256,
)


def loader(client: tidegate.Client, kind: Kind, folder: Path, **options: Any) -> Loader:
    plan = sub.read_named_table("rows", kind.schema).to_plan()
    files = {"rows": folder / "*.parquet"}
    shuffle = Shuffle(1, rows=kind.window)
    return Loader(client, plan, files, batch_size=kind.batch, shuffle=shuffle, shapes=kind.shapes, **options)


def load(client: tidegate.Client, kind: Kind, folder: Path, rows: int) -> None:
    check(sum(len(batch[kind.first]) for batch in loader(client, kind, folder)), rows)


def dataset(kind: Kind, folder: Path) -> Iterable[pa.RecordBatch]:
    batches: Iterable[pa.RecordBatch] = ds.dataset(folder).to_batches(batch_size=kind.window)
    return batches


def scan(kind: Kind, folder: Path) -> Iterable[pa.RecordBatch]:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    reader: Iterable[pa.RecordBatch] = connection.sql(f"FROM '{folder}/*.parquet'").to_arrow_reader(kind.window)
    return reader


Read = Callable[[Kind, Path], Iterable[pa.RecordBatch]]


def read_all(read: Read, kind: Kind, folder: Path, rows: int) -> None:
    check(sum(batch.num_rows for batch in read(kind, folder)), rows)


def shuffled(read: Read, kind: Kind, folder: Path, rows: int) -> None:
    """Read batches whose rows NumPy shuffles within windows."""
    random = np.random.default_rng(1)
    total, window = 0, list[pa.RecordBatch]()
    for batch in chain(read(kind, folder), [None]):
        if window and (batch is None or sum(part.num_rows for part in window) >= kind.window):
            table = pa.Table.from_batches(window)
            order = random.permutation(table.num_rows)
            columns = {name: values[order] for name, values in kind.arrays(table).items()}
            for first in range(0, table.num_rows, kind.batch):
                total += len({name: values[first : first + kind.batch] for name, values in columns.items()}[kind.first])
            window = []
        if batch is not None:
            window.append(batch)
    check(total, rows)


def check(read: int, rows: int) -> None:
    if read != rows:
        raise RuntimeError(f"{read} rows were read, not {rows}")
