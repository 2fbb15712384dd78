"""A service over the fake engine that is killed and started again: the next one has a copy of the data folder.

A copy that is taken while the service runs is what a kill leaves: whatever was written, and nothing tidied up.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from tidegate.executor.checkpoints.disk import Disk
from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.values import Split, TaskOptions

from ..fakes import PLAN, Client, FakeEngine, manager_of


class Restarts:
    """`manager` is the service that runs now. `engine` makes its computations."""

    def __init__(
        self,
        folder: Path | None = None,
        engine: FakeEngine | None = None,
        disk: Disk | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="tidegate-test-"))
        self.engine = engine or FakeEngine()
        self._checkpoints = checkpoints
        self._numbers = itertools.count(1)
        self.data = self.folder / "0"
        self._disk = disk
        self.start()

    def start(self) -> None:
        """Start the service on the folder of the one that was killed."""
        self.durable = DurableTasks(self.data, self._disk)
        self.manager: TaskManager = manager_of(
            self.engine, threads=2, durable=self.durable, checkpoint_root=self._checkpoints
        )

    def create(
        self, tables: dict[str, list[Split]] | None = None, request: str = "", restore: str = "", **options: object
    ) -> Client:
        info = self.manager.create_task(PLAN, TaskOptions(**options), tables or {}, restore=restore, request=request)
        return Client(self.manager, info)

    def settle(self) -> None:
        """Wait until acknowledgements are durable, and checkpoints that were begun are written."""
        written = self.durable.checkpoints._threads.submit
        written(lambda: None).result()
        for _ in range(2):  # what follows a commit is done before the next commit
            self.durable.flush()
        written(lambda: None).result()

    def kill(self) -> None:
        """End the service without notice."""
        before, self.data = self.data, self.folder / str(next(self._numbers))
        # Checkpoints first: the journal is cut where they are, never before them.
        for part in ("checkpoints", "."):
            _copy(before / part, self.data / part)
        self.manager.close()

    def restart(self, task: Client | None = None) -> Client:
        """Kill the service and start it again; the task in the new one."""
        self.kill()
        self.start()
        return self.attach(task) if task is not None else None  # type: ignore[return-value]

    def attach(self, task: Client) -> Client:
        return Client(self.manager, self.manager.get_task(task.id))

    def close(self) -> None:
        self.manager.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _copy(source: Path, target: Path) -> None:
    """Copy a folder, without what the service removes meanwhile."""
    for folder, _, names in os.walk(source):
        copied = target / Path(folder).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(FileNotFoundError):
                shutil.copy2(Path(folder) / name, copied / name)
