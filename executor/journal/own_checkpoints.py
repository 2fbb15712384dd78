"""The checkpoints that durable tasks take by themselves, in a folder for each task. One thread writes them all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...proto.values import TaskOptions
from ..checkpoints.checkpoint_folder import CheckpointFolder
from ..checkpoints.disk import Disk
from ..checkpoints.manifest import NO_TASK, Origin, damaged
from ..checkpoints.regular_checkpoints import EndingError, RegularCheckpoints, epochs_of, name_of
from ..checkpoints.root import KnownCheckpoint
from ..checkpoints.taking import Checkpoints
from .group_commit import journal_failed

_log = logging.getLogger(__name__)


class OwnCheckpoints:
    """The checkpoints of a service's durable tasks. Implements `checkpoints.regular_checkpoints.Behind`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._threads = ThreadPoolExecutor(1, "tidegate-checkpoints")
        self._closing = threading.Event()

    def folder(self, task: str) -> CheckpointFolder:
        return CheckpointFolder(self._disk, self._path / task)

    def epochs(self, task: str) -> list[int]:
        """The epochs of a task's checkpoints, in order."""
        return epochs_of(self.folder(task).names())

    def known(self, task: str, epoch: int) -> KnownCheckpoint:
        """The checkpoint at the barrier of an epoch. Raises `CheckpointError` if it is damaged, or is another one."""
        folder, name = self.folder(task), name_of(epoch)
        manifest = folder.manifest(name)
        if manifest.task not in (task, NO_TASK) or (manifest.name, manifest.epoch) != (name, epoch):
            of = f"checkpoint {manifest.name!r} of task {manifest.task!r}"
            raise damaged(f"'{task}/{name}'", f"its manifest is that of {of}, at epoch {manifest.epoch}")
        return KnownCheckpoint(folder, manifest)

    def adopt(self, task: str, other: KnownCheckpoint) -> None:
        """Keep a checkpoint of another task as the first one of this task. Raises OSError if it cannot be written."""
        manifest = replace(other.manifest, task=task, name=name_of(other.manifest.epoch))
        self.folder(task).adopt(other.folder, manifest)

    def drop(self, task: str, epoch: int) -> None:
        """Remove a checkpoint that no restart is to go on from, for good."""
        self.folder(task).remove(name_of(epoch))
        self._disk.sync_names(self._path / task)

    def drop_behind(self, task: str, epoch: int) -> None:
        """Remove the task's checkpoints of later epochs, also one that is being written: these epochs may have other
        rows now. Nothing brings the checkpoints back, once this returns. Raises `Unavailable` if the service closes.
        """
        try:
            self._threads.submit(self._drop_behind, task, epoch).result()
        except (RuntimeError, CancelledError):
            raise journal_failed(None) from None

    def _drop_behind(self, task: str, epoch: int) -> None:
        for later in self.epochs(task):
            if later > epoch:
                self.drop(task, later)

    def of(self, task: str, origin: Origin, options: TaskOptions, kept: Sequence[int]) -> RegularCheckpoints:
        """The checkpoints of a task of this origin, which has `kept` ones already."""
        return RegularCheckpoints(Checkpoints(task, self.folder(task), origin), self, options, kept)

    def collect(self, tasks: Collection[str]) -> None:
        """Remove the folders of other tasks than these."""
        for task in self._disk.folders(self._path):
            if task not in tasks:
                self._remove(task)

    def keep(self, task: str, epochs: Collection[int], sealed: int) -> None:
        """Remove the task's checkpoints of all other epochs. The journal does not have the records behind them any
        more, or has not sealed them, because it is older than they are: a later restart would take them for those of
        its own epochs. `sealed` is the last epoch that it has sealed.
        """
        for epoch in self.epochs(task):
            if epoch > sealed:
                _log.warning("task %s has a checkpoint at epoch %d, which is not sealed: removed", task, epoch)
            if epoch not in epochs:
                self.drop(task, epoch)

    def remove(self, task: str) -> None:
        """Remove the checkpoints of a task that is deleted. Never blocks."""
        self.call(partial(self._remove, task))

    def _remove(self, task: str) -> None:
        try:
            for epoch in self.epochs(task):  # before their files: one who reads meanwhile finds no damaged ones
                self.folder(task).remove(name_of(epoch))
            self._disk.remove_folder(self._path / task)
        except OSError:  # the next start removes the folder
            _log.exception("the checkpoints of a deleted task could not be removed")

    def call(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the service is closing
            self._threads.submit(work)

    def check(self) -> None:
        if self._closing.is_set():
            raise EndingError

    def close(self) -> None:
        """Give up a checkpoint that is being written, and end the thread. May be called more than once."""
        self._closing.set()
        self._threads.shutdown(cancel_futures=True)
