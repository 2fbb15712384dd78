"""The checkpoints that a durable task takes by itself, so that a restart need not compute all of its epochs again.

At a barrier the task only notes its state. Another thread writes the files while the next epochs run.

A restart goes on from the newest checkpoint whose epochs are all acknowledged, because the rows of epochs are not
stored. So a task takes no checkpoint before the one before it is acknowledged: a slow reader keeps one more, not many.
Nor does it take one before those that it has let go are removed: a slow disk keeps no more than a slow reader.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from ...operators.core.operator import StateWriter
from ...proto.errors import TidegateError
from ...proto.values import Cursor, Mode, TaskOptions
from ..runtime.event_lines import TaskEvents
from .state import NotedState
from .taking import Checkpoints, Position

KEPT: Final = 2
"""The checkpoints that a restart can go on from. If the newest is damaged, it goes on from the one before."""
_NAME: Final = re.compile(r"epoch-([1-9][0-9]*)")

_log = logging.getLogger(__name__)


class Behind(Protocol):
    """A thread that makes calls one after the other, for all tasks."""

    def call(self, work: Callable[[], None]) -> None:
        """Make the call later. Never blocks."""
        ...

    def check(self) -> None:
        """Raise `EndingError` if the work in progress is to be given up."""
        ...


class EndingError(Exception):
    """The service ends, or the task is deleted: its checkpoint is not needed."""


class RegularCheckpoints:
    """The checkpoints of one task. `kept` are the epochs of those that there are, oldest first. Its methods are called
    under the task's lock.
    """

    def __init__(
        self, checkpoints: Checkpoints, behind: Behind, options: TaskOptions, kept: Sequence[int] = ()
    ) -> None:
        self._checkpoints = checkpoints
        self._behind = behind
        self._most_epochs = options.checkpoint_epochs
        self._most_seconds = options.checkpoint_seconds
        self._kept = list(kept)
        self._epochs = 0
        self._seconds = 0.0
        self._writing = self._removing = self._ended = False

    def due(self, seconds: float, acknowledged: Cursor, *, presses: bool) -> bool:
        """True if an epoch that took so long is to have a checkpoint. Called once for each epoch, at its barrier.

        `presses` says that the journal needs one.
        """
        self._epochs += 1
        self._seconds += seconds
        if self._writing or self._removing or self._ended:
            return False
        if self._kept and self._kept[-1] >= acknowledged.epoch:
            return False
        by_epochs = 0 < self._most_epochs <= self._epochs
        return presses or by_epochs or 0 < self._most_seconds <= self._seconds

    def begin(self) -> None:
        """Count from here on to the next checkpoint."""
        self._epochs, self._seconds = 0, 0.0
        self._writing = True

    def write(
        self, position: Position, state: NotedState, events: TaskEvents, written: Callable[[int | None], None]
    ) -> None:
        """Write the state that was noted at this barrier on another thread, which then calls `written`."""
        self._behind.call(partial(self._write, position, state, events, written))

    def _write(
        self, position: Position, state: NotedState, events: TaskEvents, written: Callable[[int | None], None]
    ) -> None:
        epoch: int | None = position.epoch
        try:
            taken = self._checkpoints.take(name_of(position.epoch), position, partial(self._save, state))
            events.tell("checkpoint_taken", epoch=epoch, checkpoint=taken.id, bytes=taken.size)
        except EndingError:
            epoch = None
        except TidegateError as error:
            events.tell("checkpoint_failed", logging.WARNING, epoch=epoch, error=error)
            epoch = None
        except Exception:  # noqa: BLE001  # whatever it is, it is this checkpoint's alone
            _log.exception("a bug in Tidegate: a checkpoint could not be written")
            epoch = None
        written(epoch)

    def _save(self, state: NotedState, writer: StateWriter) -> None:
        state.write_to(writer, self._look)

    def _look(self) -> None:
        self._behind.check()
        if self._ended:
            raise EndingError

    def written(self, epoch: int | None) -> None:
        """Record that a checkpoint was written, or that none was."""
        self._writing = False
        if epoch is not None:
            self._kept.append(epoch)

    def drop_behind(self, epoch: int) -> None:
        """Forget the checkpoints of later epochs, which were removed."""
        self._kept = [kept for kept in self._kept if kept <= epoch]

    def first_needed(self, acknowledged: Cursor) -> int:
        """The first epoch whose splits a restart may read; 0 if it may need all of them."""
        usable = usable_of(self._kept, acknowledged)
        return usable[-KEPT] + 1 if len(usable) >= KEPT else 0

    def let_go(self, acknowledged: Cursor) -> Callable[[], None] | None:
        """The call that removes the checkpoints that a restart does not need, once the journal has `acknowledged`."""
        gone = usable_of(self._kept, acknowledged)[:-KEPT]
        if not gone:
            return None
        self._kept = [epoch for epoch in self._kept if epoch not in gone]
        self._removing = True
        return lambda: self._behind.call(partial(self._remove, gone))

    def _remove(self, epochs: Sequence[int]) -> None:
        try:
            if not self._ended:
                self._checkpoints.remove(map(name_of, epochs))
        except OSError:  # the next start removes them
            _log.exception("checkpoints that are not needed any more could not be removed")
        finally:
            self._removing = False

    def end(self) -> None:
        """Write nothing more: the task is over."""
        self._ended = True


def has_state(options: TaskOptions) -> bool:
    """True for a task whose epochs need the state of those before them."""
    return options.mode is Mode.CONTINUOUS


def name_of(epoch: int) -> str:
    return f"epoch-{epoch}"


def epochs_of(names: Iterable[str]) -> list[int]:
    """The epochs of checkpoints with these names, in order."""
    return sorted(int(known[1]) for name in names if (known := _NAME.fullmatch(name)) is not None)


def usable_of(epochs: Iterable[int], acknowledged: Cursor) -> list[int]:
    """The epochs of the checkpoints that a restart can go on from: all rows up to their barriers are acknowledged."""
    return [epoch for epoch in epochs if epoch < acknowledged.epoch]
