"""Reads a task's output: the frames at a cursor, acknowledgements, and callers that wait for frames."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ...proto.errors import OutOfRange, Refused
from ...proto.values import Blocked, BlockedState, Cursor, Finished, Frame, TaskPhase
from ..runtime.idle_timer import IdleTimer
from .epoch_threads import ANY_TIME, EpochThreads
from .output_log import Full
from .task_state import TaskState

DEFAULT_READ_BYTES: Final = 32 << 20


class OutputReaders:
    """Answers the readers of one task. A call that waits keeps the task from being idle."""

    def __init__(self, task_state: TaskState, threads: EpochThreads, idleness: IdleTimer) -> None:
        self._task_state = task_state
        self._threads = threads
        self._idleness = idleness

    def check(self, cursor: Cursor, acknowledge: Cursor | None) -> None:
        """Raise `OutOfRange` if `poll` would refuse the cursors: a call that adds and reads adds nothing then."""
        with self._task_state.lock:
            self._task_state.output.check(cursor)
            if acknowledge is not None:
                self._task_state.output.check_exists(acknowledge)

    def poll(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None) -> list[Frame]:
        """The frames from a cursor on that there are now. Never waits."""
        with self._task_state.lock:
            if acknowledge is not None:
                self._acknowledge(acknowledge)
            return self._frames(cursor, max_bytes or DEFAULT_READ_BYTES)

    def next(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None, wait: float) -> list[Frame]:
        """The frames from a cursor on. Waits for a frame other than BLOCKED."""
        frames = self.poll(cursor, acknowledge, max_bytes)
        if wait <= 0 or not isinstance(frames[0], Blocked):
            return frames
        self._threads.check_may_wait()
        with self._idleness.in_use():
            return self._wait(cursor, max_bytes or DEFAULT_READ_BYTES, wait)

    def work_and_poll(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None) -> list[Frame]:
        """Run a slice of the task on the calling thread, if it waits for a thread and its epochs are short.

        Then `poll`.
        """
        self._threads.lend_if_short()
        return self.poll(cursor, acknowledge, max_bytes)

    def _wait(self, cursor: Cursor, room: int, wait: float) -> list[Frame]:
        deadline = time.monotonic() + wait
        task_state = self._task_state
        while True:
            with task_state.lock:
                while isinstance((frames := self._frames(cursor, room))[0], Blocked):
                    remaining = deadline - time.monotonic()
                    if remaining <= 0 or self._threads.may_lend(remaining):
                        break
                    task_state.wait(min(remaining, ANY_TIME))
                if not isinstance(frames[0], Blocked) or remaining <= 0:
                    return frames
            self._threads.lend()

    def _frames(self, cursor: Cursor, max_bytes: int) -> list[Frame]:
        task_state = self._task_state
        if task_state.phase is TaskPhase.CANCELLED:
            task_state.check_running()
        task_state.output.check(cursor)
        frames: list[Frame] = []
        task_state.output.read_to(cursor)
        data = task_state.output.read(cursor, max_bytes)
        if data is not None:
            frames.append(data)
            cursor = Cursor(cursor.epoch, cursor.row + data.rows)
        if task_state.full is Full.UNREAD and task_state.output.is_read:
            self._threads.go_on()
        barrier = task_state.output.barrier(cursor.epoch)
        if barrier is not None and (barrier.error is not None or cursor.row == barrier.rows):
            task_state.ledger.read(cursor.epoch)
            frames.append(barrier)
            if self._has_ended and cursor.epoch == task_state.ledger.sealed:
                frames.append(Finished())
        return frames or [self._nothing_at(cursor)]

    @property
    def _has_ended(self) -> bool:
        return self._task_state.phase is TaskPhase.FINISHED and self._task_state.journal.settled

    def _nothing_at(self, cursor: Cursor) -> Frame:
        """The frame that says why there are no rows at a cursor."""
        task_state = self._task_state
        task_state.check_running()
        if not task_state.journal.settled:
            return Blocked(state=BlockedState.WORKING)
        if task_state.phase is TaskPhase.FINISHED:
            if cursor == Cursor(task_state.ledger.sealed + 1):
                return Finished()
            raise OutOfRange(
                f"the task has finished with epoch {task_state.ledger.sealed}: there is no epoch {cursor.epoch}"
            )
        if task_state.full is Full.FULL:
            start = task_state.output.acknowledged
            raise Refused(
                f"there are no rows yet at row {cursor.row} of epoch {cursor.epoch}, and the task waits until older "
                f"output is acknowledged: read from row {start.row} of epoch {start.epoch}",
                reason="OUTPUT_FULL",
            )
        if self._threads.has_work():
            return Blocked(state=BlockedState.WORKING)
        return Blocked(state=BlockedState.UNSEALED, missing=task_state.ledger.waits_for())

    def acknowledge(self, cursor: Cursor) -> None:
        with self._task_state.lock:
            self._acknowledge(cursor)

    def _acknowledge(self, cursor: Cursor) -> None:
        task_state = self._task_state
        if task_state.phase is TaskPhase.CANCELLED:
            task_state.check_running()
        if not task_state.output.acknowledge(cursor):
            return
        task_state.forget_acknowledged()
        if task_state.full is not None:
            self._threads.go_on()
        task_state.changed()

    def subscribe(self, cursor: Cursor, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for whenever a `poll` at the cursor may have a new answer.

        It is called on any thread, under the task's lock.
        """
        with self._task_state.lock:
            listener = self._task_state.listeners.add(cursor, callback)

        def unsubscribe() -> None:
            with self._task_state.lock:
                self._task_state.listeners.remove(listener)

        return unsubscribe
