"""ORC splits of tasks: a cancelled task leaves no process that decodes, whatever the process is doing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from pyarrow import orc

import tidegate
from tidegate.operators.sources.formats import orc_readers

ROWS = 2_000
TEXT = "x" * 10_000


def running() -> list[int]:
    """The processes that decode ORC for this one."""
    children = Path("/proc/self/task").glob("*/children")
    processes = [int(number) for listed in children for number in listed.read_text().split()]
    return [number for number in processes if "orc_process" in _command(number)]


def _command(process: int) -> str:
    """The command line of a process; of one that has just ended, nothing."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def in_time(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are listed on Linux")
@pytest.mark.parametrize("stopped", [False, True], ids=["it waits for its reader", "it does not answer"])
def test_a_cancelled_task_ends_the_process_that_decodes_its_file(tmp_path: Path, stopped: bool) -> None:
    orc.write_table(pa.table({"k": range(ROWS), "t": [TEXT] * ROWS}), tmp_path / "f.orc", compression="uncompressed")
    plan = sub.read_named_table("rows", {"k": sub.i64, "t": sub.string}).to_plan()
    orc_readers.processes.close()
    with tidegate.local() as client, client.create_task(plan, output_bytes=1 << 20) as task:
        task.add_split("rows", str(tmp_path / "f.orc"))
        task.request_barrier()
        next(iter(task.batches()))
        [process] = running()
        if stopped:
            os.kill(process, signal.SIGSTOP)
        task.cancel()
        assert in_time(lambda: not running())
