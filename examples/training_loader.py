"""A training data loader that resumes after a crash.

The task makes two passes over a folder of Parquet files, an epoch for each pass. It keeps the rows with a label and
scales their features. The loader notes its cursor, (epoch, row), after every batch that it has trained on, and crashes
in the second pass. A new loader attaches to the same task and goes on from the cursor. It sees the same rows as a
loader that never crashes: every row once, in the same order.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate

PASSES = 2
FILES = 4
ROWS = 40_000
BATCH_ROWS = 1_024


class Crash(Exception):
    """The end of the loader's process."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, tidegate.local() as client:
        files = make_files(Path(folder))
        print(f"{FILES} files of {ROWS:,} rows; {PASSES} passes over them, one epoch each.")

        whole = Training()
        with start(client, files) as task:
            whole.train(task)
        print(f"A loader without a crash trains on {len(whole.seen):,} rows.")

        broken = Training()
        with start(client, files) as task:
            try:
                broken.train(task, dies_after=len(whole.seen) * 2 // 3)
            except Crash:
                print(f"Another loader crashes after {len(broken.seen):,} rows; the cursor it noted: {broken.cursor}.")
            broken.train(client.task(task.id, cursor=broken.cursor))
        print(f"A new loader attaches to the task, goes on from the cursor, and ends at {len(broken.seen):,} rows.")
        print(f"The same rows in the same order? {'Yes' if broken.seen == whole.seen else 'No'}.")


class Training:
    """The state that a training run keeps beside its model: the rows that it has seen, and its cursor."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.cursor = tidegate.Cursor(1, 0)

    def train(self, task: tidegate.Task, dies_after: float = math.inf) -> None:
        """Take every batch of every epoch until the task has finished."""
        with task.batches(rows=BATCH_ROWS, prefetch=4) as batches:
            for batch in batches:
                self.seen += batch.column("id").to_pylist()
                self.cursor = task.cursor
                if len(self.seen) >= dies_after:
                    raise Crash


def start(client: tidegate.Client, files: Path) -> tidegate.Task:
    """Start a task and feed it all passes. A glob is one split, whose files come in a fixed order."""
    task = client.create_task(labelled_rows(), max_pending_epochs=PASSES)
    for _ in range(PASSES):
        task.add_split("samples", files / "*.parquet")
        task.request_barrier()
    task.no_more_splits()
    return task


def labelled_rows() -> bytes:
    schema = {"id": sub.i64, "feature": sub.fp64, "label": sub.i64}
    samples = sub.read_named_table("samples", schema)
    scaled = (sub.col("feature") / 100.0).alias("feature")
    plan = samples.filter(sub.col("label").is_not_null()).select("id", scaled, "label").to_plan()
    return bytes(plan.SerializeToString())


def make_files(folder: Path) -> Path:
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        labels = [None if i % 7 == 0 else i % 3 for i in ids]
        table = pa.table({"id": list(ids), "feature": [float(i % 100) for i in ids], "label": labels})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


if __name__ == "__main__":
    main()
