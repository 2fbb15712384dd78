"""A real server that is killed at random instants, and a client that feeds and reads through it.

The client's whole row stream must be that of an undisturbed run: no row missing, none twice, the same order.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.proto.values import Cursor

EPOCHS = 6
ROWS = 3_000
KILLS = 4

orders = sub.read_named_table("orders", {"k": sub.i64, "n": sub.i64})
PLANS: dict[str, bytes] = {
    "row-wise": orders.filter(sub.col("n") > 100).to_plan(),
    "aggregate": orders.group_by("k").agg(sub.f.sum(sub.col("n")).alias("total")).to_plan(),
}


class Killed:
    """A server process on a data folder, at one address for all of its lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.kills = 0
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--no-flight", "--listen", self.address]
        command += ["--data", str(self._folder / "data"), "--spill", str(self._folder / "spill")]
        command += ["--root", str(self._folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            assert "listening" in lines.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self._start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def split(epoch: int, number: int) -> pa.Table:
    luck = random.Random(f"{epoch} {number}")
    rows = ROWS if number else 30
    return pa.table({"k": [luck.randrange(50) for _ in range(rows)], "n": [luck.randrange(1_000) for _ in range(rows)]})


def stream(address: str, plan: bytes, mode: str, pause: Callable[[], None]) -> list[tuple[object, ...]]:
    """All rows that a client reads, with their cursors, in the order in which it reads them."""
    read: list[tuple[object, ...]] = []
    with tidegate.connect(address, retry_seconds=60) as client:
        task = client.create_task(plan, mode=mode)
        for epoch in range(1, EPOCHS + 1):
            for number in (0, 1):
                task.add_split("orders", split(epoch, number))
            pause()
            task.request_barrier(epoch=epoch)
            pause()
            cursor = Cursor(epoch)
            while cursor.epoch == epoch:
                frames = client.service.next(task.id, cursor, acknowledge=cursor, max_bytes=9_000, wait=10.0)
                for frame in frames:
                    if isinstance(frame, tidegate.Data):
                        rows = [row for batch in frame.batches for row in batch.to_pylist()]
                        read += [(cursor.epoch, cursor.row + at, *row.values()) for at, row in enumerate(rows)]
                        cursor = Cursor(epoch, cursor.row + frame.rows)
                    elif isinstance(frame, tidegate.Barrier):
                        assert frame.error is None
                        assert frame.rows == cursor.row
                        cursor = Cursor(epoch + 1)
                pause()
        task.delete()
    return read


@pytest.mark.parametrize(("plan", "mode"), [("row-wise", "per_epoch"), ("aggregate", "continuous")])
def test_a_client_reads_the_same_rows_however_often_its_server_is_killed(tmp_path: Path, plan: str, mode: str) -> None:
    with tidegate.local() as client:
        expected = undisturbed(client, PLANS[plan], mode)
    server, luck, over = Killed(tmp_path), random.Random(plan + mode), threading.Event()

    def kill_now_and_then() -> None:
        while server.kills < KILLS and not over.wait(luck.uniform(0.3, 1.5)):
            server.kill()

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        read = stream(server.address, PLANS[plan], mode, lambda: time.sleep(luck.uniform(0.0, 0.3)))
    finally:
        over.set()
        killer.join()
        server.close()
    assert server.kills
    assert read == expected


def undisturbed(client: tidegate.Client, plan: bytes, mode: str) -> list[tuple[object, ...]]:
    read: list[tuple[object, ...]] = []
    task = client.create_task(plan, mode=mode)
    for epoch in range(1, EPOCHS + 1):
        rows = task.run_epoch({"orders": [split(epoch, number) for number in (0, 1)]}).table().to_pylist()
        read += [(epoch, at, *row.values()) for at, row in enumerate(rows)]
    return read
