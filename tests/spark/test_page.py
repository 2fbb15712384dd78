"""The blocks of docs/spark.md and docs/spark-executor.md run as they stand there, one after the other. Addresses and
folders are the test's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from google.protobuf import json_format
from pyspark.sql import SparkSession

from ..house.api_examples import Beginning
from ..house.markdown import BLOCK
from ..house.modules import TOP

ORDERS = {
    "o_orderkey": range(4),
    "o_orderpriority": ["1-URGENT", "2-HIGH", "1-URGENT", "2-HIGH"],
    "o_totalprice": [900.0, 2000.0, 3000.0, 4000.0],
}
TABLES = ("samples", "orders")


class Page:
    """Runs the blocks of a page in their order. `names` are the names that the blocks have made so far."""

    def __init__(self, name: str, session: SparkSession, folder: Path, address: str) -> None:
        self.folder, self.session = folder, session
        self.names: dict[str, Any] = {"spark": session}
        text = (TOP / "docs" / name).read_text()
        self._blocks = iter([(kind, code) for kind, code in BLOCK.findall(text) if kind in ("python", "sql")])
        self._in_place = {
            "host:50051": address,
            "/data/orders": f"{folder}/orders.parquet",
            "/checkpoints/orders": f"{folder}/checkpoints",
            "/results/totals": f"{folder}/results",
            "totals.json": f"{folder}/totals.json",
            "batches.json": f"{folder}/batches.json",
        }

    def run(self, beginning: str) -> dict[str, Any]:
        """Run the next block, which has this text."""
        kind, code = next(self._blocks)
        assert beginning in code
        for before, after in self._in_place.items():
            code = code.replace(before, after)
        if kind == "python":
            exec(code, self.names)
        else:
            self.session.sql(code)
        return self.names

    def end(self) -> None:
        assert list(self._blocks) == []


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        yield Beginning(tmp_path, stack)["address"]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """The tables and the plans that the blocks name."""
    pq.write_table(pa.table(ORDERS), tmp_path / "orders.parquet")
    for name, frame in (
        ("orders", sub.read_named_table("orders", {"o_orderkey": sub.i64}).sort("o_orderkey")),
        ("samples", sub.read_named_table("samples", {"n": sub.i64}).sort("n")),
    ):
        plan = tmp_path / ("totals.json" if name == "orders" else "batches.json")
        plan.write_text(json_format.MessageToJson(frame.to_plan()))
    spark.read.parquet(f"{tmp_path}/orders.parquet").write.option("path", f"{tmp_path}/o").saveAsTable("orders")
    samples = spark.createDataFrame([("tue", 3), ("mon", 1), ("mon", 2)], "day string, n bigint")
    samples.write.option("path", f"{tmp_path}/s").saveAsTable("samples")
    spark.conf.set("spark.tidegate.staging", str(tmp_path))
    yield
    spark.conf.unset("spark.tidegate.staging")
    for table in (*TABLES, "totals"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.usefixtures("tables")
def test_the_blocks_of_the_page_run(spark: SparkSession, tmp_path: Path, address: str) -> None:
    page = Page("spark.md", spark, tmp_path, address)
    trained: list[list[int]] = []
    page.names["train"] = lambda table: trained.append(table["n"].to_pylist())
    page.run("epoch_by=")
    assert trained == [[1, 2], [3]]

    page.run("tidegate.spark.query(")
    assert pq.read_table(tmp_path / "results")["o_orderkey"].to_pylist() == [0, 1, 2, 3]

    totals = page.run("tidegate.spark.sql(")["totals"]
    assert {tuple(row) for row in totals.collect()} == {("1-URGENT", 1), ("2-HIGH", 2)}

    names = page.run("tidegate.spark.stream(")
    names["query"].processAllAvailable()
    names["query"].stop()
    assert names["task"].read_epoch()["o_orderkey"].to_pylist() == [0, 1, 2, 3]

    totals = page.run('spark.read.format("tidegate")')["totals"]
    assert [row[0] for row in totals.collect()] == [0, 1, 2, 3]
    page.run("CREATE TABLE totals")
    assert spark.sql("SELECT count(*) FROM totals").first()[0] == 4

    names = page.run('spark.table("orders").write.format')
    assert names["task"].read_epoch()["o_orderkey"].to_pylist() == [0, 1, 2, 3]
    names["task"].delete()
    names["client"].close()
    page.end()


@pytest.mark.usefixtures("tables")
def test_the_blocks_of_the_executors_page_run(spark: SparkSession, tmp_path: Path, address: str) -> None:
    page = Page("spark-executor.md", spark, tmp_path, address)
    assert page.run('executor="spark"')["totals"]["o_orderkey"].to_pylist() == [0, 1, 2, 3]
    page.end()


def test_every_block_that_uses_the_data_source_names_its_server() -> None:
    blocks = [code for kind, code in BLOCK.findall((TOP / "docs" / "spark.md").read_text()) if kind]
    using = [code for code in blocks if re.search(r"format\(\"tidegate\"\)|USING tidegate", code)]
    assert len(using) >= 3
    assert [code for code in using if "host:50051" not in code] == []
