"""Runs a loop by Spark's recursive query whenever it is asked on standard input, and answers with the number of rows.

`python spark_peer.py reach FOLDER`, where the folder has edges.csv and roots.csv. It needs Spark alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

REACHABLE = """WITH RECURSIVE found(a) AS (
    SELECT a FROM roots UNION ALL SELECT edges.b FROM found JOIN edges ON found.a = edges.a
) SELECT DISTINCT a FROM found"""


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind != "reach":
        raise SystemExit(f"there is no loop {kind!r}")
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = session.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in ("edges", "roots"):
        table = spark.read.csv(str(folder / f"{name}.csv"), header=True, inferSchema=True).cache()
        table.count()
        table.createOrReplaceTempView(name)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(len(spark.sql(REACHABLE).collect()), flush=True)


if __name__ == "__main__":
    main()
