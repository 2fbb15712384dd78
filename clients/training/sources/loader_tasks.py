"""The tasks of a loader: made alike, over static tables that do not change."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from ...client import Client
from ...proto.errors import InvalidRequest
from ...proto.values import PlanBytes
from ...splits import SplitLike
from ...task import Task
from ...task_options import Options, SharedOptions
from .loader_tables import Given, PinnedTables, has_server_files, pinned, read_once
from .uninterrupted import uninterrupted

ABOVE_CEILING: Final = "ABOVE_CEILING"
MOST_SECONDS: Final = 3600.0
"""A server deletes the task of a loader that it has not heard of for so long."""


class LoaderTasks:
    """Makes tasks of one plan, which all have the same static tables.

    Before the first one reads, a task of its own lists the tables' files. A server then refuses a file that has changed
    since, and does not see files that have come into a folder since. Arrow data is read once.
    """

    def __init__(
        self, client: Client, plan: PlanBytes, source: str, tables: Given | None, options: SharedOptions, *, skips: bool
    ) -> None:
        self._client = client
        self._plan = plan
        self._source = source
        self._given = tables or {}
        self._options = options
        self._on_error: Final = "skip_epoch" if skips else "fail"
        self._lock = threading.Lock()
        self._pinned: PinnedTables | None = None

    def create(self) -> Task:
        """A new task."""
        tables = self._tables()
        task = self._create(tables.tables)
        try:
            tables.check_uploads()
        except BaseException:
            task.delete()
            raise
        return task

    def table_digests(self) -> dict[str, str]:
        """The digests of the tables that all tasks have."""
        uninterrupted(self._pin)
        return dict(self._tables().digests)

    def _pin(self) -> None:
        """List the files of the tables, if that was not done."""
        self._tables()

    def _tables(self) -> PinnedTables:
        with self._lock:
            if self._pinned is None:
                self._pinned = self._listed()
                self._given = {}
            return self._pinned

    def _listed(self) -> PinnedTables:
        tables = read_once(self._given)
        if not has_server_files(tables):
            return pinned(tables, lambda _: ())
        with self._create(tables) as task:  # a service lists files for sources that take splits, and for all alike
            return pinned(tables, partial(task.find_files, self._source, pieces=True))

    def _create(self, tables: Mapping[str, Sequence[SplitLike]]) -> Task:
        """A task. A server that allows less than `MOST_SECONDS` gives it the time that it allows."""
        asked: Options = {
            **self._options,
            "on_error": self._on_error,
            "determinism": "strict",
            "mode": "per_epoch",
        }
        if "idle_seconds" not in self._options:
            patient: Options = {**asked, "idle_seconds": MOST_SECONDS}
            try:
                return self._client.create_task(self._plan, tables=tables, **patient)
            except InvalidRequest as error:
                if error.reason != ABOVE_CEILING:
                    raise
        return self._client.create_task(self._plan, tables=tables, **asked)
