"""The BARRIER's watermark where pipelines run on Spark: the least of the sources, as anywhere."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

import tidegate
from tests.on_channels import on_spark

from ...on_channels import on_channels
from ..plans import plan, read, summed, union


def test_the_result_has_the_least_of_its_inputs(client: tidegate.Client, spark: SparkSession) -> None:
    both = plan(summed(union(read("a", "k", "v"), read("b", "k", "v"))), "k", "total").json
    rows = pa.table({"k": [1, 2, 3], "v": [1, 1, 1]})
    with client.create_task(both, **on_spark(spark), **on_channels(2)) as task:
        for watermarks in ((70, 50), (71, None)):
            for source, watermark in zip(("a", "b"), watermarks, strict=True):
                task.add_split(source, rows, watermark=watermark)
            task.request_barrier()
        assert [epoch.watermark for _, epoch in zip(range(2), task.epochs(), strict=False)] == [50, None]
