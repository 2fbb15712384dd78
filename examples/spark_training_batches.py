"""Training batches from a Spark table.

Spark has the samples, a table with a folder for each day, and computes the labels from clicks. Tidegate gets the
samples by reference: it reads the table's files itself. It gets the labels as Spark computes them. It joins both day by
day, an epoch for each day, and gives the batches in the same order on every run.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import substrait.dataframe as sub
from pyspark.sql import DataFrame, SparkSession

import tidegate
import tidegate.spark

DAYS = ("2024-05-01", "2024-05-02", "2024-05-03")
SAMPLES = 3_000
BATCH_ROWS = 256


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as spark:
        make_samples(spark)
        samples, labels = spark.table("samples"), computed_labels(spark)
        first = digest(batches(samples, labels, tell=True))
        second = digest(batches(samples, labels, tell=False))
        print(f"The same batches again? {'Yes' if first == second else 'No'}.")


def batches(samples: DataFrame, labels: DataFrame, *, tell: bool) -> Iterator[pa.RecordBatch]:
    """The batches of all days. The labels are a static table, and each day of samples is an epoch."""
    with tidegate.local() as client:
        table = {"labels": labels.orderBy("id").toArrow()}
        with client.create_task(labelled_samples(), tables=table) as task:
            fed = tidegate.spark.feed(samples, task, "samples", epoch_by="day")
            task.no_more_splits()
            if tell:
                print(
                    f"Fed by the way {fed.way.value!r}: {fed.rows:,} rows, epochs {fed.epochs[0]} to {fed.epochs[-1]}."
                )
            for epoch in task.epochs():
                rows = epoch.table()
                if tell:
                    print(f"Day {rows['day'][0]}: {rows.num_rows:,} rows with a label.")
                yield from rows.to_batches(max_chunksize=BATCH_ROWS)


def digest(rows: Iterator[pa.RecordBatch]) -> str:
    seen = hashlib.sha256()
    for batch in rows:
        seen.update(repr(batch.to_pydict()).encode())
    return seen.hexdigest()


def labelled_samples() -> bytes:
    """The plan: day, id, scaled feature and label of each sample that has a label."""
    samples = sub.read_named_table("samples", {"id": sub.i64, "feature": sub.fp64, "day": sub.date})
    labels = sub.read_named_table("labels", {"id": sub.i64, "label": sub.i64}).select(
        sub.col("id").alias("label_id"), "label"
    )
    joined = samples.join(labels, on=sub.col("id") == sub.col("label_id"))
    scaled = (sub.col("feature") / 100.0).alias("feature")
    return bytes(joined.select("day", "id", scaled, "label").sort("id").to_plan().SerializeToString())


def make_samples(spark: SparkSession) -> None:
    days = ", ".join(f"'{day}'" for day in DAYS)
    rows = spark.range(SAMPLES).selectExpr(
        "id", "cast(id % 100 AS double) AS feature", f"cast(array({days})[cast(id % 3 AS int)] AS date) AS day"
    )
    rows.repartition("day").write.partitionBy("day").saveAsTable("samples")


def computed_labels(spark: SparkSession) -> DataFrame:
    """The number of clicks of each sample. A third of the samples has none."""
    clicks = spark.range(SAMPLES * 2).selectExpr("id % 2000 AS id")
    return clicks.groupBy("id").count().selectExpr("id", "count AS label")


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
