"""TPC-H queries on Spark, compared with the same queries in this process.

DataFusion makes the plans from SQL. The channels of each task are Spark tasks. For each query the example prints the
number of rows, the time of a warm epoch and the tasks of each stage. It compares the rows with those of a task in this
process, bit for bit and in the same order. On small tables, which several channels do not make faster, a query is one
stage of one task.

python examples/spark_tpch.py [--scale 1]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import datafusion
import pyarrow as pa
from datafusion.substrait import Serde
from pyspark.sql import SparkSession

import tidegate

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
CHANNELS = 2
QUERIES = {
    1: """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base_price,
               sum(l_extendedprice * (1 - l_discount)) AS price, avg(l_discount) AS discount, count(*) AS lines
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    3: """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    6: """
        SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    18: """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
          AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Queries of TPC-H, run by Spark.")
    parser.add_argument("--scale", default="1", help="1 is six million line items (default: %(default)s)")
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as folder:
        files = generated(Path(folder), scale)
        spark = session(Path(folder))
        with tidegate.local() as client:
            for number, plan in plans(files).items():
                summary, there = answered(client, plan, files, spark)
                _, here = answered(client, plan, files)
                same = "the same" if there.equals(here) else "NOT THE SAME"
                print(f"query {number}: {summary}, {same} as in this process")


def answered(
    client: tidegate.Client, plan: bytes, files: Mapping[str, Path], spark: SparkSession | None = None
) -> tuple[str, pa.Table]:
    """Run two epochs and time the second, which finds the operators made (on Spark in running Python workers)."""
    executor: Literal["local", "spark"] = "local" if spark is None else "spark"
    with client.create_task(plan, channels=CHANNELS, executor=executor, spark=spark) as task:
        splits = {source: files[source] for source in task.sources}
        task.run_epoch(splits).table()
        started = time.perf_counter()
        rows = task.run_epoch(splits).table()
        seconds = time.perf_counter() - started
        tasks = "+".join(str(stage.tasks) for stage in task.statistics().stages)
    return f"{rows.num_rows} rows in {seconds:.1f} s, tasks by stage {tasks}", rows


def plans(files: Mapping[str, Path]) -> dict[int, bytes]:
    """Make the plans. They read tables by name, so they do not depend on the files."""
    context = datafusion.SessionContext()
    for table, path in files.items():
        context.register_parquet(table, str(path))
    return {number: Serde.serialize_bytes(sql, context) for number, sql in QUERIES.items()}


def generated(folder: Path, scale: str) -> dict[str, Path]:
    """Generate the tables' files with the program of `pip install tpchgen-cli`."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [program if program.exists() else "tpchgen-cli", "parquet", "-s", scale, "--output-dir", folder]
    subprocess.run(command, check=True, capture_output=True)
    return {table: folder / f"{table}.parquet" for table in TABLES}


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
