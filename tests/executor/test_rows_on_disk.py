"""Rows of splits and Datasets that are on disk: only what is being read of them is mapped, so only that is resident."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.executor.runtime.batch_store import Holding, Quota, SpillFiles, Store

MIB = 1 << 20
BATCHES = 24

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is resident of a map is Linux's to say")


def large(number: int) -> pa.RecordBatch:
    return pa.record_batch({"x": np.full(MIB // 8, number)})


def resident(folder: Path) -> int:
    """The bytes of the folder's files that are mapped and resident, also those of files that are removed."""
    size = 0
    ours = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            ours = len(words) > 5 and words[5].startswith(f"{folder}{os.sep}")
        elif words[0] == "Rss:" and ours:
            size += int(words[1]) * 1024
    return size


def most_resident(batches: Iterable[pa.RecordBatch], folder: Path) -> tuple[int, list[int]]:
    """The most bytes that were resident while all values were read, as every fourth batch sees it, and the first value
    of each batch.
    """
    most, first = resident(folder), []
    for number, batch in enumerate(batches):
        column = batch.column(0).to_numpy()
        assert (column == column[0]).all()
        first.append(int(column[0]))
        del column
        if number % 4 == 3:
            most = max(most, resident(folder))
    return most, first


@pytest.fixture
def spilled(tmp_path: Path) -> Iterator[Holding]:
    files = SpillFiles(tmp_path / "spilled")
    store = Store(0, Quota(1 << 30))
    holding = Holding(tuple(map(large, range(BATCHES))))
    run = store.take_run(holding)
    assert run is not None
    store.spilled(run, files.write(run))
    del run
    yield holding
    files.remove()


def test_a_few_batches_of_a_split_are_resident_at_a_time(spilled: Holding, tmp_path: Path) -> None:
    assert most_resident(spilled.read(0, spilled.rows), tmp_path)[1] == list(range(BATCHES))
    assert 0 < most_resident(spilled.read(0, spilled.rows), tmp_path)[0] <= 10 * MIB
    assert not resident(tmp_path)


def test_any_rows_of_a_split_are_read(spilled: Holding, tmp_path: Path) -> None:
    count = MIB // 8
    parts = list(spilled.read(2 * count - 1, 5 * count + 2))
    assert [(batch["x"][0].as_py(), batch.num_rows) for batch in parts] == [
        (1, 1),
        (2, count),
        (3, count),
        (4, count),
        (5, 2),
    ]


def test_a_graph_has_one_file_of_a_dataset_resident_at_a_time(tmp_path: Path) -> None:
    """As every sixth batch sees it: to see takes long in a process with many maps."""
    seen: list[int | None] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pa.record_batch({"x": [batch.column(0).to_numpy().sum()]})
        seen.append(resident(tmp_path) if len(seen) % 6 == 5 else None)
        return total

    table = pa.Table.from_batches(map(large, range(4 * BATCHES)))
    with tidegate.local(spill_directory=tmp_path) as client, client.dataset(table) as dataset:
        graph = tidegate.TaskGraph()
        firsts = graph.read_dataset(dataset).map(look, schema=table.schema, name="look")
        graph.collect(firsts)
        with client.run_graph(graph) as result:
            assert result.rows == len(seen)
        assert 0 < max(size for size in seen if size is not None) <= 40 * MIB < table.nbytes // 2
