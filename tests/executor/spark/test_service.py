"""Tables that are written, the command line, and a server: each with tasks that Spark runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.executor import plans
from tests.executor.test_write import writing
from tests.on_channels import on_spark
from tidegate.server.cli import main

from ...on_channels import on_channels

SUM = plans.summed(plans.read("t", "k", "v"))
ROWS = pa.table({"k": [at % 7 for at in range(50_000)], "v": range(50_000)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a command is run, with a plan and rows for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(plans.plan(SUM, "k", "s").json or "")
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path


@pytest.fixture
def summed(folder: Path) -> pa.Table:
    """What the plan answers here."""
    with tidegate.local() as client:
        return client.query(folder / "plan.json", {"t": ROWS}, **on_channels(2), determinism="strict")


@pytest.fixture
def master(spark: SparkSession) -> Iterator[str]:
    """The address of the tests' Spark, which a service is not to stop."""
    yield spark.sparkContext.master
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("relation", "files"), [(SUM, 1), (plans.filtered(plans.read("t", "k", "v"), 1, 0), 3)], ids=["groups", "rows"]
)
def test_a_plan_that_writes_writes_what_spark_computes_a_file_for_each_channel(
    relation: object, files: int, spark: SparkSession, tmp_path: Path
) -> None:
    written = {}
    for executor, options in (("local", {}), ("spark", on_spark(spark))):
        root = tmp_path / executor
        root.mkdir()
        with (
            tidegate.local(write_root=root) as client,
            client.create_task(writing(relation).json, **on_channels(3), **options) as task,
        ):
            epochs = [task.run_epoch({"t": ROWS.slice(0, count)}) for count in (50_000, 10)]
            rows = [epoch.table() for epoch in epochs]
            assert [epoch.statistics.rows_written for epoch in epochs] == [table.num_rows for table in rows]
            files_written = [epoch.statistics.files_written for epoch in epochs]
            counted = [operator for operator in task.statistics().operators if operator.operator == "Write"]
        names = sorted(path.name for path in (root / "out").iterdir())
        by_epoch = [[name for name in names if f"-0000000{number}" in name] for number in (1, 2)]
        assert [len(epoch) for epoch in by_epoch] == files_written
        assert files_written[0] == (1 if executor == "local" else files)
        tables = [pa.concat_tables([pq.read_table(root / "out" / name) for name in epoch]) for epoch in by_epoch]
        assert [table.rename_columns(["key", "value"]) for table in tables] == rows
        [write] = counted
        assert write.rows_in == sum(table.num_rows for table in rows)
        assert write.bytes_in >= 16 * write.rows_in
        written[executor] = tables
    assert written["spark"] == written["local"]


def test_the_command_line_runs_a_plan_on_spark(
    folder: Path, summed: pa.Table, master: str, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ("--executor", "spark", "--spark", master, "--channels", "2", "--parallel-threshold-seconds", "0")
    how += ("--spark-threshold-bytes", "0")
    assert main(["run", "plan.json", "--split", "t=rows.parquet", *how, "--output", "out.parquet"]) == 0
    assert pq.read_table(folder / "out.parquet") == summed
    assert "2 channels" in capsys.readouterr().out.splitlines()[-1]


def test_a_server_runs_its_clients_tasks_on_its_spark(folder: Path, summed: pa.Table, master: str) -> None:
    address = f"unix:{folder}/server"
    answers = {}

    def ask() -> None:
        try:
            with (
                tidegate.connect(address) as client,
                client.create_task(
                    folder / "plan.json", executor="spark", spark_threshold_bytes=0, **on_channels(2)
                ) as task,
            ):
                answers["rows"] = task.run_epoch({"t": "rows.parquet"}).table()
                answers["stages"] = task.statistics().stages
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # the server's, which ends then as it would for anybody

    asking = threading.Thread(target=ask)
    asking.start()
    assert main(["serve", "--listen", address, "--spark", master]) == 0
    asking.join()
    assert answers["rows"] == summed
    assert [(stage.done, stage.pipelines) for stage in answers["stages"]] == [(1, ("pipeline 1",))]


def test_a_process_has_one_spark(master: str) -> None:
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match="already has a Spark") as refused:
        client.create_task(plans.plan(SUM, "k", "s").json, **on_spark("local[7]"))
    assert refused.value.reason == "SPARK_RUNNING"
