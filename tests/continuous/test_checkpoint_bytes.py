"""The bytes of a checkpoint follow the change since the one before, not the state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

import tidegate

from .histories import planned

T: Final = pa.schema([("k", pa.int64()), ("v", pa.int64())])
U: Final = pa.schema([("k", pa.int64()), ("w", pa.int64())])
ROWS: Final = 100_000
CHANGES: Final = ROWS // 1_000
MOST: Final = 0.02
"""Of the bytes of a checkpoint of the whole state, those of a checkpoint after so few changes."""
PLANS: Final = {
    "join": "SELECT t.k, v, w FROM t JOIN u ON t.k = u.k",
    "left join": "SELECT t.k, v, w FROM t LEFT JOIN u ON t.k = u.k",
    "not in": "SELECT k, v FROM t WHERE k NOT IN (SELECT k FROM u)",
    "except": "SELECT k FROM t EXCEPT SELECT k FROM u",
    "group": "SELECT k, sum(v), max(v), count(*) FROM t GROUP BY k",
    "few groups": "SELECT k % 100, sum(v) FROM t GROUP BY k % 100",
    "distinct": "SELECT DISTINCT k, v FROM t",
    "top": "SELECT k, v FROM t ORDER BY v, k LIMIT 20",
    "window": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) FROM t",
    "above average": "SELECT k, v FROM t WHERE v > (SELECT avg(v) FROM t)",
}


class Checkpoints:
    """Takes a checkpoint of a task at the end of each epoch, and counts the bytes that it writes.

    A file that is written again is another one: its name is the digest of its bytes.
    """

    def __init__(self, root: Path, task: tidegate.Task) -> None:
        self._root, self._task = root, task
        self._there: dict[tuple[int, int], int] = {}

    def bytes_of(self, splits: Mapping[str, object]) -> int:
        self._task.run_epoch(splits, checkpoint=True).table()
        files = [path.stat() for path in self._root.rglob("*") if path.is_file()]
        before, self._there = self._there, {(file.st_ino, file.st_mtime_ns): file.st_size for file in files}
        return sum(size for file, size in self._there.items() if file not in before)


class Tables:
    """Rows of both sources, and small changes of `t`: half of them deletions."""

    def __init__(self) -> None:
        self._chance = np.random.default_rng(1)
        self._t = self._some(T, ROWS)
        self._gone = 0

    def _some(self, schema: pa.Schema, count: int) -> pa.Table:
        columns = [self._chance.integers(0, ROWS // 4, count), self._chance.integers(0, 1 << 40, count)]
        return pa.table(columns, schema=schema)

    def all(self, task: tidegate.Task) -> dict[str, pa.Table]:
        return {"t": self._t, "u": self._some(U, ROWS // 10)} if "u" in task.sources else {"t": self._t}

    def change(self) -> dict[str, tidegate.Changes]:
        half = CHANGES // 2
        gone, come = self._t.slice(self._gone, half), self._some(T, half)
        self._gone += half
        weights = pa.array([-1] * half + [1] * half, pa.int64())
        return {"t": tidegate.Changes(pa.concat_tables([gone, come]).append_column("change", weights), "change")}


def parts(root: Path, plan: str, changes: int, channels: int = 1) -> list[float]:
    """The bytes of the checkpoints after some small changes, as parts of the bytes of the whole state's."""
    tables = Tables()
    with (
        tidegate.local(roots=(), checkpoint_root=root) as client,
        client.create_task(planned(plan, {"t": T, "u": U}), mode="continuous", channels=channels) as task,
    ):
        checkpoints = Checkpoints(root, task)
        whole = checkpoints.bytes_of(tables.all(task))
        assert whole > 4 * ROWS
        return [checkpoints.bytes_of(tables.change()) / whole for _ in range(changes)]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_checkpoint_after_a_change_of_one_row_in_a_thousand_has_two_hundredths_of_the_bytes(
    tmp_path: Path, plan: str
) -> None:
    [part] = parts(tmp_path, plan, 1)
    assert 0 < part <= MOST


@pytest.mark.parametrize("channels", [1, 2])
def test_checkpoints_after_many_small_changes_have_few_bytes_on_average(tmp_path: Path, channels: int) -> None:
    """Now and then a checkpoint writes older changes again, because they were merged."""
    shares = parts(tmp_path, PLANS["join"], 20, channels)
    assert sum(shares) / len(shares) <= MOST
