"""A part of the cases `spark` and `spark-source`: rows that Spark reads through Tidegate's data source, beside Spark's
own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import substrait.dataframe as sub
from google.protobuf.json_format import MessageToJson

import tidegate.spark

from . import spark_feed
from .services import served
from .settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE, PARQUET = "through the data source", "Parquet by Spark itself"
NOT_NULL = "through the data source, as NOT NULL"


M = TypeVar("M")


def compared(
    spark: SparkSession,
    folder: Path,
    settings: Settings,
    measure: Callable[[Mapping[str, Callable[[], object]]], M],
    *,
    not_null: bool = False,
) -> M:
    """Measures both ways of reading the same files of four columns: a plan that hands them on, and Spark's own reader.

    The plan runs in a server. The rows go to a sink that keeps nothing. With `not_null`, Spark
    is also told that no value is null.
    """
    table = folder / "read"
    spark_feed.make_files(table, settings.spark_read_rows)
    tidegate.spark.register(spark)
    plan = sub.read_named_table("rows", spark_feed.COLUMNS).select(*spark_feed.COLUMNS).to_plan()
    with served(folder) as client:
        options = {"server": client.address, "plan": MessageToJson(plan), "table.rows": str(table)}
        reader = spark.read.format("tidegate").options(**options, partitions=settings.threads)
        promised = spark.read.format("tidegate").options(**options, partitions=settings.threads, notNull="*")
        contenders: dict[str, Callable[[], object]] = {
            SOURCE: lambda: drain(reader.load()),
            PARQUET: lambda: drain(spark.read.parquet(str(table))),
        }
        return measure(contenders | ({NOT_NULL: lambda: drain(promised.load())} if not_null else {}))


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
