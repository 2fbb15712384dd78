"""A view that follows a stream: Structured Streaming feeds a continuous task, which gives the changes of the totals.

Needs `pip install 'tidegate[spark]'` and Java 17.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate
import tidegate.spark

orders = sub.read_named_table("orders", {"customer": sub.string, "amount": sub.i64})
totals = orders.group_by("customer").agg(sub.f.sum(sub.col("amount")).alias("total")).to_plan()

BATCHES = [
    '{"customer": "ann", "amount": 5, "change": "insert"}\n{"customer": "bob", "amount": 7, "change": "insert"}',
    '{"customer": "ann", "amount": 5, "change": "delete"}\n{"customer": "bob", "amount": 1, "change": "insert"}',
]


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    incoming = folder / "orders"
    incoming.mkdir()
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    changes = spark.readStream.schema("customer string, amount long, change string").json(str(incoming))
    view: dict[str, int] = {}
    with tidegate.local() as client, client.create_task(totals, mode="continuous") as task:
        for number, batch in enumerate(BATCHES):
            (incoming / f"{number}.json").write_text(batch)
            # A query that starts again on the same checkpoint location goes on. Batches that it repeats change nothing.
            writer = tidegate.spark.stream(changes, task, "orders", change_column="change")
            writer.option("checkpointLocation", str(folder / "query")).trigger(availableNow=True)
            writer.start().awaitTermination()
            for row in task.read_epoch().to_pylist():
                if row["_weight"] > 0:
                    view[row["customer"]] = row["total"]
                elif view.get(row["customer"]) == row["total"]:
                    del view[row["customer"]]
            print(f"after batch {number}: {dict(sorted(view.items()))}")
    spark.stop()


if __name__ == "__main__":
    main()
