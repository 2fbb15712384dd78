"""A server of Spark Connect is local if it sees this process's files, whatever its address is."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ...sparks import PROJECT

CLIENT = """
import sys
import pyarrow as pa
import tidegate
from tests.on_channels import on_spark
from tests.executor import plans
from pyspark.sql.connect.session import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
plan = plans.plan(plans.summed(plans.read("t", "k", "v")), "k", "s")
with tidegate.local(spill_directory=sys.argv[2]) as client:
    for _ in range(2):
        try:
            with client.create_task(plan, **on_spark(spark)) as task:
                print(task.run_epoch({"t": pa.table({"k": [1, 1], "v": [2, 3]})}).table().to_pylist())
        except tidegate.InvalidRequest as refused:
            print(refused.reason)
spark.stop()
"""


def answers(address: str, spill: Path, *, hidden: bool) -> list[str]:
    """A client's answers. With `hidden`, its spill folder is another one than the server's under the same path."""
    command = shlex.join([sys.executable, "-W", "ignore", "-c", CLIENT, address, str(spill)])
    mounted = f"mount -t tmpfs none {shlex.quote(str(spill))} && {command}"
    how = ["unshare", "-m", "sh", "-c", mounted] if hidden else ["sh", "-c", command]
    ran = subprocess.run(how, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.splitlines()


def test_a_server_that_reads_the_service_s_files_is_local(
    spark: SparkSession, connect_address: str, tmp_path: Path
) -> None:
    assert spark.sparkContext.master.startswith("local[")
    assert answers(connect_address, tmp_path, hidden=False) == ["[{'k': 1, 's': 5}]"] * 2
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this process may not make mount namespaces")
    assert answers(connect_address, tmp_path, hidden=True) == ["NO_STAGING"] * 2
