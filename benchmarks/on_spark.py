"""Case `spark`: tasks on the Spark executor beside Spark itself, in one warm session with a core a thread.

The 22 plans that DataFusion wrote run beside Spark SQL on the same files; an epoch of 1,000 rows beside a Spark job
that does nothing in one Python worker; and one plan on more channels and over more data, for the bytes that move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

import tidegate

from . import plans, small_epochs, tpch
from .measure import Runs, interleave, summed
from .progress import progress
from .report import Report, Target
from .services import embedded
from .settings import Settings
from .spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS, SPARK, EMPTY = "Tidegate on Spark", "Spark SQL", "an empty Spark job"
SMALL = "an epoch of 1,000 rows"
MOVED_BY = 18
"""The query whose moved bytes are counted: it joins and groups all line items."""


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = {plan.query: plan for plan in tpch.plans(settings.plans, "datafusion")}
    runs: dict[str, Runs] = {}
    with TemporaryDirectory() as folder, session(Path(folder), settings.threads) as spark, embedded() as client:
        for table, path in files.items():
            spark.read.parquet(str(path)).createOrReplaceTempView(table)
        for query in progress(settings.queries, "spark"):
            runs[f"q{query:02}"] = compared(client, spark, chosen[query], files, settings)
        small = small_epoch(client, spark, settings)
        moved = {
            (channels, times): moved_bytes(client, spark, chosen[MOVED_BY], files, channels, times)
            for channels in (2, 4)
            for times in (1, 2)
        }
    return report(settings, runs, small, moved)


def compared(
    client: tidegate.Client, spark: SparkSession, plan: tpch.Plan, files: Mapping[str, Path], settings: Settings
) -> Runs:
    """The task lives on, an epoch a run; the session has been warmed up by a run of each."""
    with client.create_task(plan.path, executor="spark", spark=spark, channels=settings.threads) as task:
        splits = {name: files[name.lower()] for name in task.sources}
        return interleave(
            {OURS: lambda: task.run_epoch(splits).table(), SPARK: lambda: spark.sql(plan.sql).toArrow()},
            settings.rounds,
        )


def small_epoch(client: tidegate.Client, spark: SparkSession, settings: Settings) -> Runs:
    with ExitStack() as stack:
        task = stack.enter_context(
            client.create_task(plans.filter_project_group(), executor="spark", spark=spark, channels=1)
        )
        contenders = {
            OURS: partial(small_epochs.next_epoch, task, small_epochs.rows()),
            EMPTY: partial(empty_job, spark),
        }
        return interleave(contenders, settings.rounds)


def empty_job(spark: SparkSession) -> object:
    return spark.range(0, 1, 1, 1).mapInArrow(passed, "id long").collect()


def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def moved_bytes(
    client: tidegate.Client,
    spark: SparkSession,
    plan: tpch.Plan,
    files: Mapping[str, Path],
    channels: int,
    times: int,
) -> int:
    """Of an epoch that is fed the line items so many times."""
    with client.create_task(plan.path, executor="spark", spark=spark, channels=channels) as task:
        several = {name: times if name.lower() == "lineitem" else 1 for name in task.sources}
        task.run_epoch({name: [files[name.lower()]] * several[name] for name in task.sources}).table()
        return sum(operator.bytes_out for operator in task.statistics().operators if operator.operator == "Stage")


def report(settings: Settings, runs: Mapping[str, Runs], small: Runs, moved: Mapping[tuple[int, int], int]) -> Report:
    total = summed(runs, (OURS, SPARK))
    rows = [_row(name, timings, SPARK) for name, timings in runs.items()]
    rows += [_row("total", total, SPARK), _row(SMALL, small, EMPTY)]
    rows += [
        [f"q{MOVED_BY}, {channels} channels, line items {times} times: MB moved", f"{size / 1e6:.2f}", "", ""]
        for (channels, times), size in moved.items()
    ]
    left_out = {**total.left_out, **small.left_out}
    return Report(
        case="spark",
        title=f"The Spark executor, TPC-H scale {settings.scale:g}, local[{settings.threads}]: "
        f"median ms of {settings.rounds} runs",
        header=["", OURS, "Spark", "ratio"],
        rows=rows,
        targets=[
            Target("total over Spark SQL", total.ratio(OURS, SPARK), 1.0),
            Target("a small epoch over an empty Spark job", small.ratio(OURS, EMPTY), 3.0),
        ],
        notes=[f"{name}: left out of the total, {why}" for name, why in left_out.items()],
        figures={
            **{name: {"seconds": timings.seconds, "left_out": timings.left_out} for name, timings in runs.items()},
            SMALL: {"seconds": small.seconds, "left_out": small.left_out},
            "moved": {f"{channels} channels, {times} times": size for (channels, times), size in moved.items()},
        },
    )


def _row(name: str, runs: Runs, peer: str) -> list[str]:
    times = [f"{runs.spread(name).median * 1e3:.0f}" if name in runs.seconds else "-" for name in (OURS, peer)]
    ratio = runs.ratio(OURS, peer)
    return [name, *times, "-" if ratio is None else f"{ratio.median:.2f}"]
