"""A service whose tasks run on Spark, killed in the middle of its second epoch: `killed_driver.py FOLDER MASTER`.

It prints the task's id and the first epoch's rows that it has read.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate
from tests.executor import plans
from tests.executor.test_write import writing
from tests.on_channels import on_channels
from tidegate.executor.spark.spark_cluster import SparkCluster

EPOCHS = [pa.table({"k": [at % 7 for at in range(count)], "v": range(count)}) for count in (30_000, 20_000, 10_000)]
PLAN = writing(plans.summed(plans.read("t", "k", "v"))).json


def service(folder: Path) -> tidegate.Client:
    (folder / "tables").mkdir(exist_ok=True)
    return tidegate.local(data=folder / "data", write_root=folder / "tables")


def main(folder: Path, master: str) -> None:
    rows = SparkCluster.rows

    def killed(self: SparkCluster, *how: Any, epoch: int, **more: Any) -> Iterator[pa.RecordBatch]:
        for batch in rows(self, *how, epoch=epoch, **more):
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    SparkCluster.rows = killed  # type: ignore[method-assign]
    with service(folder) as client:
        task = client.create_task(PLAN, executor="spark", spark=master, **on_channels(2))
        print(task.id, flush=True)
        for epoch in EPOCHS:
            task.add_split("t", epoch)
            task.request_barrier()
        task.read_epoch()
        task.read_epoch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
