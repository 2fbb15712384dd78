"""Case `spark-source`: rows that Spark reads through Tidegate's data source, beside Parquet that it reads itself.

This is the part of the case `spark` that takes a minute. Here the columns are read as `NOT NULL`, too.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from . import spark_reads
from .on_spark import Measured
from .report import Report, Target, spread_text
from .settings import Settings
from .spark_session import session


def run(settings: Settings) -> Report:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        spark = stack.enter_context(session(folder, settings.threads))
        measure = partial(Measured.of, rounds=settings.rounds)
        reads = spark_reads.compared(spark, folder, settings, measure, not_null=True)
    ours = (spark_reads.SOURCE, spark_reads.NOT_NULL)
    kinds = {"time": reads.runs, "CPU time": reads.used}
    return Report(
        case="spark-source",
        title=f"{settings.spark_read_rows:,} rows into Spark, local[{settings.threads}]",
        header=["", "seconds", "CPU seconds"],
        rows=[[name, *(spread_text(runs.spread(name)) for runs in kinds.values())] for name in reads.runs.seconds],
        targets=[
            Target(f"{kind} {name}, over Spark's own reader", runs.ratio(name, spark_reads.PARQUET), 2.0)
            for name in ours
            for kind, runs in kinds.items()
        ],
        notes=[f"{name}: {why}" for name, why in reads.runs.left_out.items()],
        figures={"seconds": reads.runs.seconds, "cpu": reads.used.seconds},
    )
