"""Restarts under load: `python -m tests.crash.rolling` has 50 tasks, 20 clients and ten restarts.

Every client feeds its tasks epoch by epoch, and checks that each row comes once, in its place.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import tidegate

from ..executor import plans
from .lives import Forking, Lives

PLAN = plans.plan(plans.filtered(plans.read("t", "k", "v"), 1, -1), "k", "v")
SUMS = plans.plan(plans.summed(plans.read("t", "k", "v")), "k", "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Each of the `clients` has its part of the `tasks`. The server is ended in each way of `how` in turn."""

    tasks: int = 50
    clients: int = 20
    restarts: int = 10
    epochs: int = 60
    how: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGKILL)


def roll(lives: Lives, load: Load) -> list[str]:
    """Run the load, and name what was wrong."""
    over = threading.Event()
    epochs_read = [0]

    def restart() -> None:
        for number in range(load.restarts):
            due = (number + 1) * load.epochs * load.tasks // (load.restarts + 1)
            while epochs_read[0] < due and not over.wait(0.02):
                pass
            if not over.is_set():
                end = lives.end_one if load.how[number % len(load.how)] is signal.SIGTERM else lives.kill_one
                end()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        with ThreadPoolExecutor(load.clients) as clients:
            parts = [range(client, load.tasks, load.clients) for client in range(load.clients)]
            wrong = clients.map(lambda part: _client(lives.address, part, load.epochs, epochs_read), parts)
            return [problem for problems in wrong for problem in problems]
    finally:
        over.set()
        restarting.join()


def _client(address: str, numbers: Sequence[int], epochs: int, epochs_read: list[int]) -> list[str]:
    """Run epochs of some tasks in turn. Odd tasks are continuous: their sums have the rows of all epochs so far."""
    wrong = []
    with tidegate.connect(address) as client:
        tasks = {
            number: client.create_task(SUMS, mode="continuous", checkpoint_epochs=5)
            if number % 2
            else client.create_task(PLAN)
            for number in numbers
        }
        for epoch in range(1, epochs + 1):
            for number, task in tasks.items():
                rows = pa.table({"k": [number, number], "v": [epoch, 1]})
                read = task.run_epoch({"t": rows}).table().to_pylist()
                if read != (_changed(number, epoch) if number % 2 else rows.to_pylist()):
                    wrong.append(f"task {number}, epoch {epoch}: {read}")
                epochs_read[0] += 1
        for task in tasks.values():
            task.delete()
    return wrong


def _changed(number: int, epoch: int) -> list[dict[str, int]]:
    """The change of a sum, to which each epoch adds its number and one."""
    now = epoch * (epoch + 1) // 2 + epoch
    before = [{"k": number, "total": now - epoch - 1, "_weight": -1}] if epoch > 1 else []
    return [*before, {"k": number, "total": now, "_weight": 1}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tasks", "clients", "restarts", "epochs"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Load(), name))
    began = time.monotonic()
    with Forking() as forking, tempfile.TemporaryDirectory(prefix="tidegate-crash-") as folder:
        lives = Lives(forking, Path(folder), ())
        load = Load(**vars(parser.parse_args()))
        try:
            wrong = roll(lives, load)
        finally:
            lives.close()
    wrong += lives.wrong
    print(*wrong, sep="\n")
    print(f"{load}: {len(wrong)} problems ({time.monotonic() - began:.0f} s)")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
