"""The first rows of a row-wise plan come while nearly all of its input is unread, and rows that wait spill nothing.

By counters: the output has room for a part of the first file, so nothing can be read ahead of the reader by timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.proto.values import MIB, PlanBytes

from .plans import doubled, filtered, plan, read, union

ROWS, FILES = 1_000_000, 2
LIMITS: Final = {"output_bytes": 4 * MIB}
"""Of sixteen that each file has."""
A: Final = read("a", "k", "v")
ROW_WISE: Final[Mapping[str, PlanBytes]] = {
    "read": plan(A, "k", "v"),
    "filter": plan(filtered(A, 0, -1), "k", "v"),
    "project": plan(doubled(A, 2), "k", "v"),
    "filter of a projection": plan(filtered(doubled(A, 2), 0, -1), "k", "v"),
    "union all": plan(union(A, filtered(A, 0, ROWS * FILES)), "k", "v"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{number}.parquet" for number in range(FILES)]
    for number, path in enumerate(paths):
        k = np.arange(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"k": k, "v": k}), path, row_group_size=ROWS // 10)
    return paths


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


@pytest.mark.parametrize("determinism", ["strict", "relaxed"])
@pytest.mark.parametrize("name", ROW_WISE)
def test_the_first_batch_comes_before_a_file_is_read_to_its_end(
    name: str, determinism: str, client: tidegate.Client, files: list[Path]
) -> None:
    with client.create_task(ROW_WISE[name], determinism=determinism, **LIMITS) as task:
        for path in files:
            task.add_split("a", str(path))
        task.request_barrier()
        task.no_more_splits()
        batches = task.batches()
        rows = next(batches).num_rows
        first = task.statistics()
        spilled = {first.spilled_bytes}
        for batch in batches:
            rows += batch.num_rows
            spilled.add(task.statistics().spilled_bytes)
    assert first.barriers_completed == 0
    assert first.output_rows < ROWS
    assert spilled == {0}
    assert rows == ROWS * FILES


@pytest.mark.parametrize("name", ROW_WISE)
def test_rows_come_before_the_second_file_is_there(name: str, client: tidegate.Client, files: list[Path]) -> None:
    with client.create_task(ROW_WISE[name], **LIMITS) as task:
        task.add_split("a", str(files[0]))
        assert next(task.batches()).num_rows > 0
        assert task.statistics().barriers_requested == 0
