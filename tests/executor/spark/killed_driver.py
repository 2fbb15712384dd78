"""A service whose tasks run on Spark: `killed_driver.py FOLDER MASTER`. Its second epoch loses the JVM. The task is
recovered, and the service is killed in the middle of the same epoch.

It prints the task's id.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext

import tidegate
from tests.executor import plans
from tests.executor.test_write import writing
from tests.on_channels import on_channels, on_spark
from tidegate.executor.spark.spark_cluster import SparkCluster

EPOCHS = [pa.table({"k": [at % 7 for at in range(count)], "v": range(count)}) for count in (30_000, 20_000, 10_000)]
PLAN = writing(plans.summed(plans.read("t", "k", "v"))).json


def service(folder: Path) -> tidegate.Client:
    (folder / "tables").mkdir(exist_ok=True)
    return tidegate.local(data=folder / "data", write_root=folder / "tables")


def main(folder: Path, master: str) -> None:
    rows, javas = SparkCluster.rows, []

    def killed(self: SparkCluster, *how: Any, epoch: int, **more: Any) -> Iterator[pa.RecordBatch]:
        if epoch == 2 and not javas:
            javas.append(SparkContext._gateway.proc)
            javas[0].kill()
            javas[0].wait()
        for batch in rows(self, *how, epoch=epoch, **more):
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    SparkCluster.rows = killed  # type: ignore[method-assign]
    with service(folder) as client:
        task = client.create_task(PLAN, **on_spark(master), **on_channels(2))
        print(task.id, flush=True)
        for epoch in EPOCHS:
            task.add_split("t", epoch)
            task.request_barrier()
        task.read_epoch()
        try:
            task.read_epoch()
        except tidegate.TaskFailed as error:
            if error.reason != "SPARK_ENDED":
                raise
            task.recover()
            task.read_epoch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
