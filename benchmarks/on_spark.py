"""Case `spark`: Tidegate in Spark beside Spark itself, in one warm session with a core a thread.

The 22 plans that DataFusion wrote run as tasks on the Spark executor beside Spark SQL on the same files; an epoch of
1,000 rows beside a Spark job that does nothing in one Python worker, and beside the same epoch without Spark; rows that
Spark reads through the data source beside Parquet that it reads itself; and one plan on more channels and over more
data, for the bytes that move. Each row has the time, and the CPU time of all processes together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import tidegate

from . import plans, small_epochs, spark_reads, tpch
from .cpu_time import Used
from .measure import Runs, Spread, interleave, summed
from .progress import progress
from .report import Report, Target
from .services import embedded
from .settings import Settings
from .spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS, SPARK = "Tidegate on Spark", "Spark SQL"
EMPTY, HERE = "empty Spark jobs", "the same without Spark"
SMALL, READ, TOTAL = "epochs of 1,000 rows", "rows read", "total"
JOBS: Final[dict[str, Any]] = {"executor": "spark", "spark_threshold_bytes": 0}
SMALL_EPOCHS = 10
"""In a run: CPU time is counted in hundredths of a second."""
MOVED_BY = 18
"""The query whose moved bytes are counted: it joins and groups all line items."""


@dataclass(frozen=True)
class Measured:
    """Seconds and CPU seconds of the same runs."""

    runs: Runs
    used: Runs

    @classmethod
    def of(cls, contenders: Mapping[str, Callable[[], object]], rounds: int) -> Measured:
        used = Used()
        runs = interleave({name: used.by(name, contender) for name, contender in contenders.items()}, rounds)
        return cls(runs, used.runs(runs))


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = {plan.query: plan for plan in tpch.plans(settings.plans, "datafusion")}
    queries: dict[str, Measured] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        spark = stack.enter_context(session(folder, settings.threads))
        client = stack.enter_context(embedded())
        for table, path in files.items():
            spark.read.parquet(str(path)).createOrReplaceTempView(table)
        for query in progress(settings.queries, "spark"):
            queries[f"q{query:02}"] = compared(client, spark, chosen[query], files, settings)
        small = small_epoch(client, spark, settings)
        reads = spark_reads.compared(spark, folder, settings, partial(Measured.of, rounds=settings.rounds))
        moved = {
            (channels, times): moved_bytes(client, spark, chosen[MOVED_BY], files, channels, times)
            for channels in (2, 4)
            for times in (1, 2)
        }
    return report(settings, queries, small, reads, moved)


def compared(
    client: tidegate.Client, spark: SparkSession, plan: tpch.Plan, files: Mapping[str, Path], settings: Settings
) -> Measured:
    """The task lives on, an epoch a run; the session has been warmed up by a run of each."""
    with client.create_task(plan.path, **JOBS, spark=spark, channels=settings.threads) as task:
        splits = {name: files[name.lower()] for name in task.sources}
        return Measured.of(
            {OURS: lambda: task.run_epoch(splits).table(), SPARK: lambda: spark.sql(plan.sql).toArrow()},
            settings.rounds,
        )


def small_epoch(client: tidegate.Client, spark: SparkSession, settings: Settings) -> Measured:
    plan, rows = plans.filter_project_group(), small_epochs.rows()
    with ExitStack() as stack:
        there = stack.enter_context(client.create_task(plan, executor="spark", spark=spark, channels=1))
        here = stack.enter_context(client.create_task(plan))
        contenders = {
            OURS: partial(small_epochs.next_epoch, there, rows),
            EMPTY: partial(empty_job, spark),
            HERE: partial(small_epochs.next_epoch, here, rows),
        }
        repeated = {name: partial(repeat, contender) for name, contender in contenders.items()}
        return Measured.of(repeated, settings.rounds)


def repeat(contender: Callable[[], object]) -> None:
    for _ in range(SMALL_EPOCHS):
        contender()


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
    with client.create_task(plan.path, **JOBS, spark=spark, channels=channels) as task:
        several = {name: times if name.lower() == "lineitem" else 1 for name in task.sources}
        task.run_epoch({name: [files[name.lower()]] * several[name] for name in task.sources}).table()
        return sum(operator.bytes_out for operator in task.statistics().operators if operator.operator == "Stage")


def report(
    settings: Settings,
    queries: Mapping[str, Measured],
    small: Measured,
    reads: Measured,
    moved: Mapping[tuple[int, int], int],
) -> Report:
    total = Measured(
        summed({name: query.runs for name, query in queries.items()}, (OURS, SPARK)),
        summed({name: query.used for name, query in queries.items()}, (OURS, SPARK)),
    )
    rows = [_row(name, measured, OURS, SPARK) for name, measured in {**queries, TOTAL: total}.items()]
    rows += [_row(f"{SMALL_EPOCHS} {SMALL}, beside {peer}", small, OURS, peer) for peer in (EMPTY, HERE)]
    rows.append(_row(f"{settings.spark_read_rows:,} {READ}", reads, spark_reads.SOURCE, spark_reads.PARQUET))
    rows += [
        [f"q{MOVED_BY}, {channels} channels, line items {times} times: MB moved", f"{size / 1e6:.2f}", *[""] * 5]
        for (channels, times), size in moved.items()
    ]
    parts = {**queries, SMALL: small, READ: reads}
    return Report(
        case="spark",
        title=f"Tidegate in Spark, TPC-H scale {settings.scale:g}, local[{settings.threads}]: "
        f"median ms of {settings.rounds} runs",
        header=["", "Tidegate", "Spark", "ratio", "CPU ms: Tidegate", "CPU ms: Spark", "ratio"],
        rows=rows,
        targets=[
            Target("CPU time of all queries, over Spark SQL's", total.used.ratio(OURS, SPARK), 0.35),
            Target("the slowest query beside Spark SQL, over it", slowest(queries), 1.0),
            Target("a small epoch over an empty Spark job", small.runs.ratio(OURS, EMPTY), 0.6),
            Target(
                "rows through the data source, over Spark's own reader",
                reads.runs.ratio(spark_reads.SOURCE, spark_reads.PARQUET),
                2.0,
            ),
        ],
        notes=[
            f"{name}, {contender}: left out, {why}"
            for name, measured in parts.items()
            for contender, why in measured.runs.left_out.items()
        ],
        figures={
            **{name: {"seconds": part.runs.seconds, "cpu": part.used.seconds} for name, part in parts.items()},
            "moved": {f"{channels} channels, {times} times": size for (channels, times), size in moved.items()},
        },
    )


def slowest(queries: Mapping[str, Measured]) -> Spread | None:
    """The ratio of the query that is slowest beside Spark SQL; None if one did not run."""
    ratios = [query.runs.ratio(OURS, SPARK) for query in queries.values()]
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known, key=lambda ratio: ratio.median) if known and len(known) == len(ratios) else None


def _row(name: str, measured: Measured, ours: str, peer: str) -> list[str]:
    return [name, *_cells(measured.runs, ours, peer), *_cells(measured.used, ours, peer)]


def _cells(runs: Runs, ours: str, peer: str) -> Iterator[str]:
    for name in (ours, peer):
        yield f"{runs.spread(name).median * 1e3:.0f}" if name in runs.seconds else "-"
    ratio = runs.ratio(ours, peer)
    yield "-" if ratio is None else f"{ratio.median:.2f}"
