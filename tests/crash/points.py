"""The named points at which a server is killed.

A point is a moment before or after a call of the server's own code. The process that becomes the server wraps the call,
so the server's code knows nothing of this.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Point:
    """A moment `before` or after a call. With `paths`, only calls whose arguments name such a path count."""

    call: str
    before: bool
    paths: str = ""

    @property
    def name(self) -> str:
        where = f" of {self.paths}" if self.paths else ""
        return f"{'before' if self.before else 'after'} {self.call.rpartition(':')[2]}{where}"

    def counts(self, arguments: tuple[object, ...]) -> bool:
        return not self.paths or any(self.paths in _path_of(one) for one in arguments)


def _path_of(argument: object) -> str:
    """The whole path of a path, or of an open file, whose name it is."""
    return str(argument if isinstance(argument, Path) else getattr(argument, "name", argument))


_JOURNAL: Final = "executor.journal"
_FOLDER: Final = "executor.checkpoints.checkpoint_folder:CheckpointFolder"
_TASKS: Final = "executor.tasks"
_LOCKING: Final = "operators.changes.network.locking:Locking"
_STAGED: Final = "operators.writing.staged_write:Staged"


def _around(*calls: str, paths: str = "") -> tuple[Point, ...]:
    return tuple(Point(f"tidegate.{call}", before, paths) for call in calls for before in (True, False))


def _on_disk(paths: str) -> tuple[Point, ...]:
    calls = (f"executor.checkpoints.disk:LocalDisk.{call}" for call in ("sync", "rename", "remove"))
    return _around(*calls, paths=paths)


ALWAYS: Final = _around(
    f"{_JOURNAL}.journal_database:JournalDatabase.commit",
    f"{_JOURNAL}.group_commit:Journal._committed",
    f"{_JOURNAL}.task_journal:DurableTask.record",
    f"{_JOURNAL}.task_journal:DurableTask.acknowledged",
    f"{_JOURNAL}.task_journal:DurableTask._record_late",
    f"{_JOURNAL}.durable_tasks:DurableTasks.create",
    f"{_TASKS}.epoch_loop:EpochLoop._start",
    f"{_TASKS}.epoch_loop:EpochLoop._finish",
    f"{_TASKS}.output_log:OutputLog.offer",
    f"{_TASKS}.output_log:OutputLog.acknowledge",
)
LARGE_SPLITS: Final = _around(
    f"{_JOURNAL}.kept_bytes:KeptBytes._write",
    f"{_JOURNAL}.kept_bytes:KeptBytes._name",
) + _on_disk("/rows/")
FREED_FILES: Final = _around(f"{_JOURNAL}.kept_bytes:KeptBytes._remove", f"{_JOURNAL}.kept_bytes:KeptBytes._write_over")
CHECKPOINTS: Final = _around(
    f"{_FOLDER}.put",
    f"{_FOLDER}.commit",
    f"{_FOLDER}.remove",
    f"{_FOLDER}.collect",
    f"{_TASKS}.before_barrier:BeforeBarrier._note_state",
    f"{_TASKS}.task_state:TaskState.checkpoint_written",
) + _on_disk("/checkpoints/")
WRITES: Final = _around(
    f"{_TASKS}.before_barrier:BeforeBarrier._commit",
    f"{_STAGED}.finish",
    f"{_STAGED}.publish",
    "operators.writing.table_folder:OpenFolder.rename",
)
LOOPS: Final = _around(f"{_LOCKING}._prepare", f"{_LOCKING}.came_back", f"{_LOCKING}.passed")
RECOVERY: Final = _around(
    f"{_JOURNAL}.durable_tasks:DurableTasks._open",
    f"{_JOURNAL}.kept_bytes:KeptBytes.collect",
    f"{_JOURNAL}.own_checkpoints:OwnCheckpoints.collect",
    "executor.service.preparing_tasks:Preparing.again",
    "executor.ledger.ledger:Ledger.repeat",
    f"{_TASKS}.task:Task.go_on",
)
LOADING: Final = _around("executor.service.preparing_tasks:restored")
POINTS: Final = (*ALWAYS, *LARGE_SPLITS, *FREED_FILES, *CHECKPOINTS, *WRITES, *LOOPS, *RECOVERY, *LOADING)


def owner_of(point: Point) -> tuple[Any, str]:
    """The class, or the module, and the name of the call of a point."""
    path, _, call = point.call.partition(":")
    owner, _, name = call.rpartition(".")
    module = importlib.import_module(path)
    return getattr(module, owner) if owner else module, name


def kill_at(point: Point, hit: int, kill: Callable[[], None] | None = None) -> None:
    """Have this process killed when it comes to the point for the `hit`-th time."""
    owner, name = owner_of(point)
    original = owner.__dict__[name]
    hits = itertools.count(1)

    def reached(arguments: tuple[object, ...]) -> None:
        if point.counts(arguments) and next(hits) == hit:
            (kill or kill_here)()

    @functools.wraps(original)
    def wrapped(*arguments: object, **named: object) -> object:
        if point.before:
            reached(arguments)
        answer = original(*arguments, **named)
        if not point.before:
            reached(arguments)
        return answer

    setattr(owner, name, wrapped)


def kill_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
