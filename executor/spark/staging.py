"""The staging place of a task: a folder that the service and all executors see, removed when the task ends."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...proto.errors import TaskCancelled


class StagingPlace:
    """The staging place of one task: folders that the service and all executors see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0
        self._removed = False
        self._lock = threading.Lock()

    def new_folder(self, name: str) -> Path:
        with self._lock:
            if self._removed:
                raise TaskCancelled("the task was deleted")
            self._made += 1
            folder = self.folder / f"{name}-{self._made}"
            folder.mkdir(mode=0o700, parents=True)
            return folder

    @contextmanager
    def epoch(self, number: int) -> Iterator[Path]:
        """A folder for an epoch, removed with its files however the epoch ends."""
        folder = self.new_folder(f"epoch-{number}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        with self._lock:
            self._removed = True
        shutil.rmtree(self.folder, ignore_errors=True)
