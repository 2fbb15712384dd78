"""The floor of the training case: a small program of pyarrow and NumPy that shuffles the same windows on two threads.

It shows what pyarrow and NumPy alone reach: there is no plan, no state, no rank, and no order by the seed and the data
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from .training_rows import Kind, check

THREADS, AHEAD, SEED = 2, 3, 1

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class _Group(NamedTuple):
    """A row group of a file."""

    file: Path
    metadata: pq.FileMetaData
    number: int
    rows: int


def floor(kind: Kind, folder: Path, rows: int) -> None:
    """Read batches of the columns of numbers, shuffled within windows of row groups in a random order."""
    check(sum(len(batch[kind.first]) for batch in _batches(kind, folder)), rows)


def _batches(kind: Kind, folder: Path) -> Iterator[Columns]:
    left = enumerate(_windows(kind, folder))
    building: deque[Future[Columns]] = deque()
    with ThreadPoolExecutor(THREADS) as threads:
        building.extend(threads.submit(_shuffled, window, seed) for seed, window in islice(left, AHEAD))
        while building:
            columns = building.popleft().result()
            building.extend(threads.submit(_shuffled, window, seed) for seed, window in islice(left, 1))
            for first in range(0, len(columns[kind.first]), kind.batch):
                yield {name: values[first : first + kind.batch] for name, values in columns.items()}


def _windows(kind: Kind, folder: Path) -> list[list[_Group]]:
    metadata = {file: pq.read_metadata(file) for file in sorted(folder.iterdir())}
    groups = [
        _Group(file, of_file, number, of_file.row_group(number).num_rows)
        for file, of_file in metadata.items()
        for number in range(of_file.num_row_groups)
    ]
    windows: list[list[_Group]] = [[]]
    for at in np.random.default_rng(SEED).permutation(len(groups)):
        if sum(group.rows for group in windows[-1]) >= kind.window:
            windows.append([])
        windows[-1].append(groups[at])
    return windows


def _shuffled(window: Sequence[_Group], seed: int) -> Columns:
    """The rows of some row groups, shuffled."""
    tables = []
    for group in window:
        with pq.ParquetFile(group.file, metadata=group.metadata, memory_map=False, pre_buffer=False) as file:
            tables.append(file.read_row_group(group.number, use_threads=False))
    order = np.random.default_rng(seed).permutation(sum(table.num_rows for table in tables))
    names: list[str] = tables[0].column_names
    return {
        name: np.concatenate([table[name].to_numpy() for table in tables]).take(order, mode="clip") for name in names
    }
