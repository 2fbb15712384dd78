"""Peers of the training loader that hand rows out one by one: Grain, PyTorch's `DataLoader` and mosaicml-streaming.

They are measured over fewer rows, since they need microseconds for each. None of them is a dependency of Tidegate, not
even of its development: install those that you want to see.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

BATCH, WINDOW, SEED = 1_024, 131_072, 1


def row_by_row(folder: Path, rows: int) -> dict[str, Callable[[], object]]:
    """A call for each peer that is installed. It reads so many rows of the folder's files in shuffled batches."""
    peers: dict[str, tuple[str, Callable[[Path, int], Iterable[Any]]]] = {
        "Grain": ("grain", grain_batches),
        "DataLoader": ("torch", data_loader_batches),
        "mosaicml-streaming": ("streaming", streaming_batches),
    }
    return {
        name: partial(_read, batches, folder, rows)
        for name, (module, batches) in peers.items()
        if find_spec(module) is not None
    }


def _read(batches: Callable[[Path, int], Iterable[Any]], folder: Path, rows: int) -> None:
    read = sum(len(batch["c0"]) for batch in islice(batches(folder, rows), rows // BATCH))
    if read != rows // BATCH * BATCH:
        raise RuntimeError(f"{read} rows were read, not {rows // BATCH * BATCH}")


def grain_batches(folder: Path, rows: int) -> Iterable[Any]:
    """Rows of the files, shuffled within a window of a batch's size or more."""
    from grain import experimental

    files = experimental.ParquetIterDataset(sorted(map(str, folder.iterdir())))
    shuffled = experimental.WindowShuffleIterDataset(files, window_size=min(WINDOW, rows), seed=SEED)
    batches: Iterable[Any] = shuffled.batch(BATCH)
    return batches


def data_loader_batches(folder: Path, rows: int) -> Iterable[Any]:
    """Rows of a table in memory, by a data set with random access."""
    from torch.utils.data import DataLoader

    batches: Iterable[Any] = DataLoader(_Rows(_head(folder, rows)), batch_size=BATCH, shuffle=True)
    return batches


def streaming_batches(folder: Path, rows: int) -> Iterable[Any]:
    """Rows of files in the peer's own format, which are written first if they are not there."""
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    own = folder.with_name(f"{folder.name}-{rows}-mds")
    if not (own / "index.json").exists():
        shutil.rmtree(own, ignore_errors=True)
        table = _Rows(_head(folder, rows))
        with MDSWriter(out=str(own), columns=dict.fromkeys(table.columns, "float64")) as writer:
            for number in range(len(table)):
                writer.write(table[number])
    dataset = StreamingDataset(local=str(own), shuffle=True, shuffle_seed=SEED, batch_size=BATCH)
    batches: Iterable[Any] = DataLoader(dataset, batch_size=BATCH)
    return batches


def _head(folder: Path, rows: int) -> pa.Table:
    return ds.dataset(folder).head(rows)


class _Rows:
    """The rows of a table of numbers, each as a dictionary."""

    def __init__(self, table: pa.Table) -> None:
        self.columns = {name: table[name].to_numpy() for name in table.column_names}
        self._rows: int = table.num_rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> dict[str, np.float64]:
        return {name: values[number] for name, values in self.columns.items()}
