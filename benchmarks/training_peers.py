"""Peers of the training loader that have to be installed: Ray Data, and three that hand rows out one by one.

Grain, PyTorch's `DataLoader` and mosaicml-streaming are measured over fewer rows, since they need microseconds for
each. None of the peers is a dependency of Tidegate, not even of its development: install those that you want to see.
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
import numpy.typing as npt
import pyarrow.dataset as ds

from .training_rows import Kind, check

SEED = 1
RAY = "Ray Data"
MODULES = {RAY: "ray", "Grain": "grain", "DataLoader": "torch", "mosaicml-streaming": "streaming"}


def missing() -> list[str]:
    """A line for each peer that is not installed."""
    return [f"{name} is left out: {MODULES[name]} is not installed" for name in MODULES if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    return find_spec(MODULES[name]) is not None


def row_by_row(kind: Kind, folder: Path, rows: int) -> dict[str, Callable[[], object]]:
    """A call for each of these peers that is installed: it reads so many rows of the files in shuffled batches."""
    peers: dict[str, Callable[[Kind, Path, int], Iterable[Any]]] = {
        "Grain": grain_batches,
        "DataLoader": data_loader_batches,
        "mosaicml-streaming": streaming_batches,
    }
    return {name: partial(_read, batches, kind, folder, rows) for name, batches in peers.items() if _is_installed(name)}


def _read(batches: Callable[[Kind, Path, int], Iterable[Any]], kind: Kind, folder: Path, rows: int) -> None:
    whole = rows // kind.batch
    check(sum(len(batch[kind.first]) for batch in islice(batches(kind, folder, rows), whole)), whole * kind.batch)


def with_ray(kind: Kind, folder: Path, rows: int) -> dict[str, Callable[[], object]]:
    """A call for Ray Data if it is installed: it reads all rows, shuffled within a buffer of a window."""
    return {RAY: partial(_read_with_ray, kind, folder, rows)} if _is_installed(RAY) else {}


def _read_with_ray(kind: Kind, folder: Path, rows: int) -> None:
    import ray

    ray.init(include_dashboard=False, log_to_driver=False)
    try:
        batches = ray.data.read_parquet(str(folder)).iter_batches(
            batch_size=kind.batch,
            batch_format="numpy",
            local_shuffle_buffer_size=kind.window,
            local_shuffle_seed=SEED,
        )
        check(sum(len(batch[kind.first]) for batch in batches), rows)
    finally:
        ray.shutdown()  # its processes would disturb what is measured next


def grain_batches(kind: Kind, folder: Path, rows: int) -> Iterable[Any]:
    """Rows of the files, shuffled within a window of a batch's size or more."""
    from grain import experimental

    files = experimental.ParquetIterDataset(sorted(map(str, folder.iterdir())))
    rows_of_files = files.map(lambda row: {name: np.asarray(value) for name, value in row.items()})
    shuffled = experimental.WindowShuffleIterDataset(rows_of_files, window_size=min(kind.window, rows), seed=SEED)
    batches: Iterable[Any] = shuffled.batch(kind.batch)
    return batches


def data_loader_batches(kind: Kind, folder: Path, rows: int) -> Iterable[Any]:
    """Rows of a table in memory, by a data set with random access."""
    from torch.utils.data import DataLoader

    batches: Iterable[Any] = DataLoader(_Rows(kind, folder, rows), batch_size=kind.batch, shuffle=True)
    return batches


def streaming_batches(kind: Kind, folder: Path, rows: int) -> Iterable[Any]:
    """Rows of files in the peer's own format, which are written first if they are not there."""
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    own = folder.with_name(f"{folder.name}-{rows}-mds")
    if not (own / "index.json").exists():
        shutil.rmtree(own, ignore_errors=True)
        table = _Rows(kind, folder, rows)
        with MDSWriter(out=str(own), columns={name: _encoding(values) for name, values in table.columns.items()}) as to:
            for number in range(len(table)):
                to.write(table[number])
    dataset = StreamingDataset(local=str(own), shuffle=True, shuffle_seed=SEED, batch_size=kind.batch)
    batches: Iterable[Any] = DataLoader(dataset, batch_size=kind.batch)
    return batches


def _encoding(values: npt.NDArray[Any]) -> str:
    shape = ",".join(map(str, values.shape[1:]))
    return f"ndarray:{values.dtype}:{shape}" if shape else str(values.dtype)


class _Rows:
    """The first rows of the files, each as a dictionary."""

    def __init__(self, kind: Kind, folder: Path, rows: int) -> None:
        columns = kind.arrays(ds.dataset(folder).head(rows))
        self.columns = {name: values.copy() for name, values in columns.items()}  # PyTorch wants to write to them
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.columns.items()}
