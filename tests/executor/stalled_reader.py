"""Run by a test in a process of its own: make a large result, read nothing, print the growth of the peak memory."""

from __future__ import annotations

import contextlib
import resource
import sys
import threading
from pathlib import Path

import pyarrow as pa

from tests.adding import add_splits
from tidegate.executor.service.embedded import open_service
from tidegate.proto.errors import Refused
from tidegate.proto.values import START, Cursor, InlineSplit, PlanBytes, TaskOptions

from . import plans


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def numbers(name: str, count: int) -> InlineSplit:
    batch = pa.record_batch({name: pa.array(range(count), pa.int64())})
    return InlineSplit(schema=batch.schema, batches=(batch,))


def large() -> PlanBytes:
    """Every row of t beside every row of u."""
    return plans.plan(plans.crossed(plans.read("t", "k"), plans.read("u", "v")), "k", "v")


def main(folder: Path) -> None:
    options = TaskOptions(output_bytes=8 << 20, spill_quota=24 << 20, memory_limit=64 << 20)
    with contextlib.closing(open_service(roots=[folder], spill_directory=folder)) as service:
        warm = service.create_task(large(), options, {}).id
        add_splits(service, warm, [("t", numbers("k", 2), None), ("u", numbers("v", 2), None)], barrier=True)
        service.next(warm, START, wait=60.0)
        before = peak()
        task = service.create_task(large(), options, {}).id
        changed = threading.Event()
        service.subscribe(task, Cursor(2), changed.set)
        add_splits(service, task, [("t", numbers("k", 25_000), None), ("u", numbers("v", 1_000), None)], barrier=True)
        while True:
            changed.clear()
            try:
                service.poll(task, Cursor(2))
            except Refused:
                break
            if not changed.wait(60):
                raise TimeoutError
        print(peak() - before, service.get_task(task).statistics.spilled_bytes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
