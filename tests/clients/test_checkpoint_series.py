"""A long series of checkpoints: the data folder stays as large as the state, and a restart has the rows of before."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa

import tidegate

from ..executor import plans

JOIN = plans.plan(plans.joined(plans.read("t", "k", "v"), plans.read("u", "k", "w"), 2), "k", "v", "l", "w")
KEYS, ROWS, CHANGED, CHECKPOINTS = 500, 5_000, 50, 24
LOG_BYTES = 5 << 20
"""More than SQLite lets the write-ahead log grow to."""


class Feed:
    """A table of which each epoch replaces some rows. `rows` are those that are there, each with another value."""

    def __init__(self) -> None:
        self.luck = random.Random(5)
        self.rows: list[tuple[int, int]] = []
        self.next_value = 0

    def change(self, gone: int, come: int) -> tidegate.Changes:
        left = [self.rows.pop(self.luck.randrange(len(self.rows))) for _ in range(gone)]
        added = [(self.luck.randrange(KEYS), self.next_value + at) for at in range(come)]
        self.next_value += come
        self.rows += added
        keys, values = zip(*left, *added, strict=True)
        return tidegate.Changes(pa.table({"k": keys, "v": values, "change": [-1] * gone + [1] * come}), "change")


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.rglob("*") if path.is_file()]


def manifests(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").rglob("epoch-*.json")}


def test_many_checkpoints_take_the_room_of_three(tmp_path: Path) -> None:
    feed, right = Feed(), pa.table({"k": range(KEYS), "w": range(KEYS)})
    with tidegate.local(data=tmp_path) as client:
        task = client.create_task(JOIN, mode="continuous", checkpoint_epochs=1, checkpoint_seconds=0)
        task.run_epoch({"t": feed.change(0, ROWS), "u": right}).table()
        while not manifests(tmp_path):
            time.sleep(0.01)
        task.acknowledge()
    whole = sum(sizes(tmp_path / "checkpoints"))
    assert whole > ROWS
    taken = set[str]()
    for most in range(CHECKPOINTS // 3, CHECKPOINTS + 1, CHECKPOINTS // 3):  # a restart goes on with the series
        with tidegate.local(data=tmp_path) as client:
            task = client.task(task.id)
            while len(taken) < most:  # the task writes one while some epochs run
                task.run_epoch({"t": feed.change(CHANGED, CHANGED)}).table()
                task.acknowledge()
                taken |= manifests(tmp_path)
        assert sum(sizes(tmp_path / "checkpoints")) <= 3 * whole
        assert len(sizes(tmp_path / "checkpoints")) <= 30
    assert sizes(tmp_path / "rows") == []
    assert sum(sizes(tmp_path)) <= 3 * whole + LOG_BYTES
    with tidegate.local(data=tmp_path) as client:
        task = client.task(task.id)
        gone = task.run_epoch({"t": feed.change(len(feed.rows), 1)}).table()
        assert gone.num_rows == ROWS + 1
