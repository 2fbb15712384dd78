"""A durable task on Spark: its JVM is killed, then its whole driver. It comes back each time and computes its epochs
again, and writes each once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.proto.values import ExecutorKind

from ...on_channels import on_channels
from ...sparks import PROJECT, environment
from .killed_driver import EPOCHS, PLAN, service


def undisturbed(folder: Path) -> list[pa.Table]:
    folder.mkdir()
    with service(folder) as client, client.create_task(PLAN, **on_channels(2)) as task:
        return [task.run_epoch({"t": epoch}).table() for epoch in EPOCHS]


def written(folder: Path) -> list[list[dict[str, object]]]:
    return sorted((pq.read_table(file).to_pylist() for file in folder.glob("tables/out/*.parquet")), key=str)


@pytest.mark.timeout(600)
def test_a_killed_driver_comes_back_and_replays_its_epochs(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.executor.spark.killed_driver", str(folder), spark.sparkContext.master]
    process = subprocess.run(
        command, cwd=PROJECT, env=environment(), check=False, timeout=500, stdout=subprocess.PIPE, text=True
    )
    assert process.returncode == -signal.SIGKILL
    identity = process.stdout.split()[0]
    expected = undisturbed(tmp_path / "undisturbed")
    with service(folder) as client:
        task = client.task(identity)
        assert task.options.executor is ExecutorKind.SPARK
        first = task.cursor.epoch
        assert [task.read_epoch() for _ in range(first, 4)] == expected[first - 1 :]
        assert first <= 2
    assert written(folder) == written(tmp_path / "undisturbed")
