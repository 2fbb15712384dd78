"""A part of the case `spark`: rows that Spark reads through Tidegate's data source, beside Spark's own reader."""

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


M = TypeVar("M")


def compared(
    spark: SparkSession, folder: Path, settings: Settings, measure: Callable[[Mapping[str, Callable[[], object]]], M]
) -> M:
    """Measures both ways of reading the same files of four columns: a plan that hands them on, and Spark's own reader.

    The plan runs in a server. The rows go to a sink that keeps nothing.
    """
    table = folder / "read"
    spark_feed.make_files(table, settings.spark_read_rows)
    tidegate.spark.register(spark)
    plan = sub.read_named_table("rows", spark_feed.COLUMNS).select(*spark_feed.COLUMNS).to_plan()
    with served(folder) as client:
        reader = spark.read.format("tidegate").option("server", client.address).option("plan", MessageToJson(plan))
        reader = reader.option("table.rows", str(table)).option("partitions", settings.threads)
        return measure({SOURCE: lambda: drain(reader.load()), PARQUET: lambda: drain(spark.read.parquet(str(table)))})


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
