"""A Structured Streaming query that feeds a folder of JSON files, one a batch, into a task of a server."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import tidegate.spark


def drive(spark: SparkSession, folder: Path, address: str, task: str) -> None:
    """Feed what is in `folder/rows` and not fed yet. The query's checkpoint location is in the folder, too."""
    rows = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(f"{folder}/rows")
    writer = tidegate.spark.stream(rows, (address, task), "a")
    writer.option("checkpointLocation", f"{folder}/query").trigger(availableNow=True).start().awaitTermination()
