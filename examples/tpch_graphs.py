"""TPC-H 6 and 12 as graphs over Parquet files: statements that read the files, a join of their rows, an executor.

python examples/tpch_graphs.py [FOLDER WITH lineitem.parquet AND orders.parquet]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate

DISCOUNTED = """
    SELECT l_extendedprice, l_discount FROM lineitem
    WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
      AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""
REVENUE = pa.schema([("revenue", pa.decimal128(38, 4))])

LATE_LINES = """
    SELECT l_orderkey, l_shipmode FROM lineitem
    WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
      AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
"""
BY_SHIPMODE = """
    SELECT l_shipmode,
           count(*) FILTER (o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high_line_count,
           count(*) FILTER (o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low_line_count
    FROM joined GROUP BY l_shipmode ORDER BY l_shipmode
"""


class Revenue:
    """Sums price times discount."""

    def __init__(self) -> None:
        self.total: Decimal | None = None

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            part = pc.sum(pc.multiply(batch["l_extendedprice"], batch["l_discount"])).as_py()
            self.total = part if self.total is None else self.total + part

    def done(self, channel: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([self.total], REVENUE.field(0).type)], schema=REVENUE)


def query_6(folder: Path) -> tidegate.TaskGraph:
    """TPC-H 6: a statement selects the lines, and an executor adds them up."""
    graph = tidegate.TaskGraph()
    lines = graph.sql("discounted", DISCOUNTED, {"lineitem": graph.read_parquet(folder / "lineitem.parquet")})
    graph.blocking("revenue", Revenue, lines, schema=REVENUE)
    return graph


def query_12(folder: Path) -> tidegate.TaskGraph:
    """TPC-H 12: a statement selects the lines, a node joins them with the orders, and a statement counts."""
    graph = tidegate.TaskGraph()
    lines = graph.sql("late lines", LATE_LINES, {"lineitem": graph.read_parquet(folder / "lineitem.parquet")})
    orders = graph.read_parquet(folder / "orders.parquet", columns=["o_orderkey", "o_orderpriority"])
    joined = graph.join("joined", lines, orders, on={"l_orderkey": "o_orderkey"})
    graph.collect(graph.sql("late", BY_SHIPMODE, {"joined": joined}))
    return graph


def small_files(folder: Path) -> None:
    """Write small files: three lines of two orders."""
    money = pa.decimal128(15, 2)
    columns = {
        "l_orderkey": [1, 1, 2],
        "l_quantity": pa.array(map(Decimal, ("5", "30", "10")), money),
        "l_extendedprice": pa.array(map(Decimal, ("100", "900", "250")), money),
        "l_discount": pa.array(map(Decimal, ("0.06", "0.06", "0.05")), money),
        "l_shipmode": ["MAIL", "SHIP", "SHIP"],
        "l_shipdate": [date(1994, 3, 1)] * 3,
        "l_commitdate": [date(1994, 3, 9)] * 3,
        "l_receiptdate": [date(1994, 3, 20)] * 3,
    }
    pq.write_table(pa.table(columns), folder / "lineitem.parquet")
    orders = pa.table({"o_orderkey": [1, 2], "o_orderpriority": ["1-URGENT", "5-LOW"]})
    pq.write_table(orders, folder / "orders.parquet")


def main(folder: Path) -> None:
    with tidegate.local(roots=[folder]) as client:
        for row in client.run_graph(query_6(folder)).table().to_pylist():
            print("revenue {revenue}".format(**row))
        for row in client.run_graph(query_12(folder)).table().to_pylist():
            print("{l_shipmode}: {high_line_count} high, {low_line_count} low".format(**row))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            small_files(Path(temporary))
            main(Path(temporary))
