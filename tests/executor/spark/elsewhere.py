"""Digests of pinned plans on other Sparks, one after the other: `MASTERS TPCH_FOLDER FOLDER QUERY ...` as a program."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests import sparks
from tests.conformance import strict_digests
from tests.conformance.loop_queries import loop_queries
from tests.conformance.strict_digests import Query
from tests.executor.test_user_operators import ROWS, SUMS, Sums, expected, rows_in_order, summed
from tests.on_channels import on_spark
from tidegate import TaskGraph
from tidegate.proto.operator_registration import Options
from tidegate.spark import feed

from ...on_channels import on_channels
from ...searching import SEARCHES
from ...spark.conftest import handed_on
from . import graphs
from .random_plans import differing

CHANNELS = (1, 2, 3)


def queries(folder: Path, tpch_folder: Path) -> Iterator[Query]:
    """The pinned plans of per-epoch tasks."""
    yield from strict_digests.operator_queries(folder, odd=False, prefetch=0)
    yield from (query for query in loop_queries(lambda table: table) if query.options.get("mode") != "continuous")
    yield from strict_digests.queries(folder, tpch_folder, odd=False)
    yield from strict_digests.ordered_queries(folder, tpch_folder, odd=False)


def query_on_spark(query: Query, spark: SparkSession) -> Query:
    return replace(query, options={**query.options, **on_spark(spark)})


@contextlib.contextmanager
def session(master: str, folder: Path, **more: str) -> Iterator[SparkSession]:
    cluster = {"spark__executorEnv__JAVA_HOME": _java_elsewhere(folder)} if master.startswith("local-cluster") else {}
    spark = sparks.start(master, folder, **cluster, **more)
    try:
        yield spark
    finally:
        spark.stop()


def digests(spark: SparkSession, chosen: Sequence[Query]) -> dict[str, str]:
    with tidegate.local() as client:
        return {
            f"{channels} {query.name}": query_on_spark(query, spark).digest(client, channels)
            for at, query in enumerate(chosen)
            for channels in (CHANNELS[at % len(CHANNELS)],)
        }


class LosesItsExecutor(Sums):
    """The first of its instances kills the JVM of its executor, with all that this has shuffled, and itself."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.marker = Path(str(options["marker"]))

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        with contextlib.suppress(FileExistsError):
            self.marker.touch(exist_ok=False)
            os.kill(_parent(os.getppid()), signal.SIGKILL)  # of this process and of the one that all workers fork from
            os.kill(os.getpid(), signal.SIGKILL)
        super().execute(batches, stream, channel)


_SPECULATION = {
    "spark__speculation": "true",
    "spark__speculation__quantile": "0.5",
    "spark__speculation__multiplier": "1.1",
    "spark__speculation__minTaskRuntime": "1s",
    "spark__speculation__efficiency__enabled": "false",
    "spark__locality__wait": "0s",
}
_DOWN_TO_NONE = {
    "spark__dynamicAllocation__enabled": "true",
    "spark__dynamicAllocation__maxExecutors": "1",
    "spark__dynamicAllocation__executorIdleTimeout": "1s",
    "spark__dynamicAllocation__shuffleTracking__timeout": "1s",
}


def _java_elsewhere(folder: Path) -> str:
    """A home of Java whose processes have a folder `hidden` of their own, where they may make one, and each executor a
    host of its own: Spark does not speculate on the host of the first attempt.
    """
    (hidden := folder / "hidden").mkdir(parents=True)
    (java := folder / "java" / "bin" / "java").parent.mkdir(parents=True)
    real = sparks.java()
    java.write_text(
        f"""#!/bin/sh
for argument; do
  shift
  case "$before" in
    --executor-id) executor=$argument;;
    --hostname) argument=127.0.0.$((executor % 250 + 2));;
  esac
  set -- "$@" "$argument"
  before=$argument
done
unshare -m true && exec unshare -m sh -c 'mount -t tmpfs none "$0" && exec "$@"' {shlex.quote(str(hidden))} {real} "$@"
exec {real} "$@"
"""
    )
    java.chmod(0o755)
    return str(java.parent.parent)


def refuse_a_folder_that_executors_do_not_see(spark: SparkSession, folder: Path) -> None:
    """Nothing is lost in silence where the path of the staging folder is another folder for executors."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return
    with tidegate.local() as client, client.create_task(handed_on()) as task:
        frame = spark.range(10).selectExpr("id AS k", "id AS v")
        with pytest.raises(tidegate.InvalidRequest) as refused:
            feed(frame, task, "rows", staging=folder / "spark" / "hidden")
        assert refused.value.reason == "STAGING_FOLDER"
        assert feed(frame, task, "rows", staging=folder / "seen").rows == 10


def run_a_graph(spark: SparkSession, folder: Path) -> None:
    """Over inputs of all kinds, into a Dataset, which another graph reads."""
    with tidegate.local(roots=(folder,)) as client:
        graph, splits = graphs.inputs(folder, client)
        there = client.run_graph(graph, splits, **on_spark(spark))
        assert there.table() == client.run_graph(graphs.inputs(folder, client)[0]).table()
        again = TaskGraph()
        again.blocking("again", graphs.PassOn, again.read_dataset(there), channels=2, partition=tidegate.SPREAD)
        assert client.run_graph(again, **on_spark(spark)).table() == there.table()


class Straggles(Sums):
    """The first of its instances never goes on, and leaves the id of its process."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.marker = Path(str(options["marker"]))
        self.goes_on = False

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        with contextlib.suppress(FileExistsError):
            if not self.goes_on:
                self.marker.open("x").write(str(os.getpid()))
                time.sleep(_LONG)
                raise AssertionError("Spark has not ended the first attempt")
        self.goes_on = True
        super().execute(batches, stream, channel)


def outrun_a_straggler(spark: SparkSession, folder: Path) -> None:
    """Spark runs a second attempt of the channel, takes that one, and ends the process of the first."""
    straggles = tidegate.user_operator(Straggles, schema=SUMS, partition="c0")
    marker = folder / "straggler"
    with (
        tidegate.local(operators={"straggles": straggles}) as client,
        client.create_task(summed("straggles", marker=str(marker)), **on_channels(2), **on_spark(spark)) as task,
    ):
        _check_sums(task)
        _wait(lambda: not Path(f"/proc/{marker.read_text()}").exists())


def run_without_executors(spark: SparkSession) -> None:
    """Between two epochs of a task Spark lets all executors go; the second epoch has new ones."""
    with (
        tidegate.local(operators={"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}) as client,
        client.create_task(summed(), **on_channels(2), **on_spark(spark)) as task,
    ):
        for _ in range(2):
            assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
            _wait(lambda: not _executors(spark))


def _executors(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()
    return len(context.statusTracker().getExecutorInfos()) - 1  # the driver is one of them


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONG
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


_LONG = 100.0


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def lose_an_executor(spark: SparkSession, folder: Path) -> None:
    """It is read from a shuffle that is lost with it."""
    lost = tidegate.user_operator(LosesItsExecutor, schema=SUMS, partition="c0")
    marker = folder / "lost"
    with (
        tidegate.local(operators={"lost": lost}) as client,
        client.create_task(summed("lost", marker=str(marker)), **on_channels(2), **on_spark(spark)) as task,
    ):
        _check_sums(task)
    assert marker.exists()


def _check_sums(task: tidegate.Task) -> None:
    """The sums of an epoch of two stages on two channels, each of which counts once."""
    assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
    stages = [operator for operator in task.statistics().operators if operator.operator == "Stage"]
    assert [stage.runs for stage in stages] == [2, 2]


def main(masters: str, tpch_folder: str, folder: str, *names: str) -> None:
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    chosen = [query for query in queries(Path(folder), Path(tpch_folder)) if query.name in names]
    digests_by_master = {}
    for master in masters.split():
        with session(master, Path(folder) / "spark", **_SPECULATION) as spark:
            digests_by_master[master] = digests(spark, chosen)
            if master.startswith(("local-cluster", "connect")):
                run_a_graph(spark, Path(folder))
            if master.startswith("local-cluster"):
                refuse_a_folder_that_executors_do_not_see(spark, Path(folder))
                with tidegate.local(roots=()) as client:
                    differing(client, spark, examples=3)
                lose_an_executor(spark, Path(folder))
                outrun_a_straggler(spark, Path(folder))
    if SEARCHES:
        with session("local-cluster[1,1,1024]", Path(folder) / "emptied", **_DOWN_TO_NONE) as spark:
            run_without_executors(spark)
    print(json.dumps(digests_by_master))


if __name__ == "__main__":
    main(*sys.argv[1:])
