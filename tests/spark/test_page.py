"""The examples of docs/spark.md run, with a server, files and folders of the test in place of the page's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from google.protobuf import json_format
from pyspark.sql import SparkSession

import tidegate
import tidegate.spark

from ..house.api_examples import Beginning
from ..house.markdown import BLOCK
from ..house.modules import TOP

BLOCKS = [(kind, code) for kind, code in BLOCK.findall((TOP / "docs" / "spark.md").read_text()) if kind]
ORDERS = {
    "o_orderkey": range(4),
    "o_orderpriority": ["1-URGENT", "2-HIGH", "1-URGENT", "2-HIGH"],
    "o_totalprice": [900.0, 2000.0, 3000.0, 4000.0],
}


class Page:
    """Runs the block that has a text in it."""

    def __init__(self, session: SparkSession, folder: Path, address: str) -> None:
        self.folder, self.address, self.session = folder, address, session
        pq.write_table(pa.table(ORDERS), folder / "orders.parquet")
        self.orders = session.read.parquet(f"{folder}/orders.parquet")
        self.plan(sub.read_named_table("orders", {"o_orderkey": sub.i64}).sort("o_orderkey"), "totals.json")
        self.in_place = {
            "host:50051": address,
            "/data/orders": f"{folder}/orders.parquet",
            "/checkpoints/orders": f"{folder}/checkpoints",
            "totals.json": f"{folder}/totals.json",
            "batches.json": f"{folder}/batches.json",
        }

    def plan(self, frame: Any, name: str) -> None:
        (self.folder / name).write_text(json_format.MessageToJson(frame.to_plan()))

    def block(self, text: str) -> str:
        [code] = [code for _, code in BLOCKS if text in code]
        for before, after in self.in_place.items():
            code = code.replace(before, after)
        return code

    def run(self, text: str, **names: Any) -> dict[str, Any]:
        exec(self.block(text), names := {"tidegate": tidegate, "spark": self.session, **names})
        return names


@pytest.fixture
def page(spark: SparkSession, tmp_path: Path) -> Iterator[Page]:
    with contextlib.ExitStack() as stack:
        yield Page(spark, tmp_path, Beginning(tmp_path, stack)["address"])
    for view in ("samples", "orders", "totals"):  # other tests of the session have tables of the same names
        spark.catalog.dropTempView(view)


@pytest.fixture
def task(page: Page) -> Iterator[tidegate.Task]:
    plan = sub.read_named_table("orders", {"o_orderkey": sub.i64}).sort("o_orderkey").to_plan()
    with tidegate.connect(page.address) as client, client.create_task(plan) as task:
        yield task


def test_a_table_is_fed_with_an_epoch_for_each_day(page: Page) -> None:
    page.plan(sub.read_named_table("samples", {"n": sub.i64}).sort("n"), "batches.json")
    page.session.createDataFrame([("tue", 3), ("mon", 1), ("mon", 2)], "day string, n bigint").createOrReplaceTempView(
        "samples"
    )
    page.session.conf.set("spark.tidegate.staging", str(page.folder))
    trained: list[list[int]] = []
    try:
        page.run("epoch_by=", train=lambda table: trained.append(table["n"].to_pylist()))
    finally:
        page.session.conf.unset("spark.tidegate.staging")
    assert trained == [[1, 2], [3]]


def test_a_sql_query_runs_over_data_frames(page: Page) -> None:
    page.orders.createOrReplaceTempView("orders")
    totals = page.run("tidegate.spark.sql(")["totals"]
    assert {tuple(row) for row in totals.collect()} == {("1-URGENT", 1), ("2-HIGH", 2)}


def test_a_stream_is_fed(page: Page, task: tidegate.Task) -> None:
    orders = page.session.readStream.schema(page.orders.schema).parquet(f"{page.folder}/orders*.parquet")
    query = page.run("tidegate.spark.stream(", orders=orders, task=task)["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert task.read_epoch()["o_orderkey"].to_pylist() == [0, 1, 2, 3]


def test_a_plan_is_read_as_a_data_frame(page: Page) -> None:
    totals = page.run('spark.read.format("tidegate")')["totals"]
    assert [row[0] for row in totals.collect()] == [0, 1, 2, 3]


def test_a_plan_is_a_view_in_sql(page: Page) -> None:
    page.run('spark.read.format("tidegate")')
    page.session.sql(page.block("CREATE TEMPORARY VIEW totals"))
    assert page.session.sql("SELECT count(*) FROM totals").first()[0] == 4


def test_a_data_frame_is_written_to_a_task(page: Page, task: tidegate.Task) -> None:
    tidegate.spark.register(page.session)
    code = page.block("df.write").replace('.option("task"', f'.option("server", "{page.address}").option("task"')
    exec(code, {"df": page.orders, "task": task})
    task.request_barrier()
    assert task.read_epoch()["o_orderkey"].to_pylist() == [0, 1, 2, 3]
