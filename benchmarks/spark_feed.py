"""Case `spark-feed`: what it costs that Spark stands between a table's files and a task.

Files of 10M rows and four columns, 8 of them. By reference: a task is fed by `feed` and answers, beside the same task
fed with the same files' names. Staged: `feed` of computed rows, up to the splits being added, beside Spark's own write
of them as Parquet.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate
import tidegate.spark

from .measure import interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .spark_session import session

FILES = 8
REFERENCE = "Tidegate, fed by reference"
NAMED = "Tidegate, fed with the files' names"
STAGED = "staged by Tidegate"
WRITTEN = "written by Spark"
COLUMNS = {"k": sub.i64, "a": sub.i64, "b": sub.fp64, "c": sub.i32}


def run(settings: Settings) -> Report:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = stack.enter_context(session(folder, os.cpu_count() or 1))
        client = stack.enter_context(tidegate.local())
        files = make_files(folder / "table", settings.spark_rows)
        frame = spark.read.parquet(str(folder / "table"))
        computed = frame.selectExpr("k + 1 AS k", "a", "b", "c")

        def referenced() -> None:
            with client.create_task(total()) as task:
                fed = tidegate.spark.feed(frame, task, "rows", how="reference")
                check(task, settings.spark_rows, fed.rows)

        def named() -> None:
            with client.create_task(total()) as task:
                for file in files:
                    task.add_split("rows", file)
                check(task, settings.spark_rows, settings.spark_rows)

        def staged() -> None:
            with client.create_task(total()) as task:
                tidegate.spark.feed(computed, task, "rows", how="staged", staging=folder / "staging")

        def written() -> None:
            computed.write.mode("overwrite").option("compression", "zstd").parquet(str(folder / "written"))

        contenders = {REFERENCE: referenced, NAMED: named, STAGED: staged, WRITTEN: written}
        runs = interleave(contenders, settings.rounds)
    return Report(
        case="spark-feed",
        title=f"Feeding from Spark, {settings.spark_rows:,} rows in {FILES} files",
        header=["", "seconds"],
        rows=[[name, spread_text(runs.spread(name))] for name in runs.seconds],
        targets=[
            Target("speed by reference, over that of the files' names", runs.ratio(NAMED, REFERENCE), 0.8, "at least"),
            Target("staged, over Spark's own write", runs.ratio(STAGED, WRITTEN), 1.3),
        ],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )


def total() -> bytes:
    """Every row is read, every column of it; one row comes out for each of a hundred keys."""
    rows = sub.read_named_table("rows", COLUMNS).group_by("c")
    sums = rows.agg(*[sub.f.sum(sub.col(name)).alias(name) for name in "kab"], sub.f.count(sub.col("k")).alias("n"))
    return bytes(sums.to_plan().SerializeToString())


def check(task: Any, expected: int, fed: int | None) -> None:
    task.request_barrier()
    counted = sum(task.read_epoch()["n"].to_pylist())
    if not counted == fed == expected:
        raise AssertionError(f"{expected} rows were fed, {fed} said to be, and {counted} counted")


def make_files(folder: Path, rows: int) -> list[Path]:
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(FILES):
        size = rows // FILES + (rows % FILES if number == 0 else 0)
        table = pa.table(
            {
                "k": np.arange(size) + number * rows,
                "a": random.integers(0, 1_000_000, size),
                "b": random.random(size),
                "c": random.integers(0, 100, size).astype(np.int32),
            }
        )
        pq.write_table(table, folder / f"part-{number}.parquet")
    return sorted(folder.glob("*.parquet"))
