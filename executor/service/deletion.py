"""The deletion of a task, which ends once it is durable."""

from __future__ import annotations

import threading

from ..journal.durable_tasks import StoredTask
from ..tasks.task import Task


class Deletion:
    """Deletes a task once, and has every caller wait until that is durable. Thread-safe.

    While the journal cannot be written, callers are refused, and ask again: the task is not found any more, but a
    restart would bring it back.
    """

    def __init__(self, task: Task | StoredTask) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._is_recorded = False

    @property
    def is_durable(self) -> bool:
        return self._is_recorded and self._task.settled

    def settle(self) -> None:
        """Return once the task is gone for good. Raises `Unavailable` if that cannot be made durable now."""
        with self._lock:
            if not self._is_recorded:
                self._task.delete()
                self._is_recorded = True
        self._task.settle()
