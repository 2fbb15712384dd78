"""Ends the loans of rows that their epoch has used.

Mostly the epoch's acknowledgement ends the loan. Until then a split's content may be compared. A digest costs more than
all else that is done for the rows, so rows that are acknowledged soon have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..runtime.idle_timer import IdleTimer
from ..runtime.work_clock import CallLater
from .inline_rows import SplitQueue

_SECONDS: Final = 1.0
"""The longest that a task that does nothing keeps rows which its epoch has used in their caller's memory."""


class Loans:
    """The loans of one task. `wake` is called when loans end because nobody has acknowledged their epoch."""

    def __init__(self, queue: SplitQueue, call_later: CallLater, wake: Callable[[], None]) -> None:
        self._queue = queue
        self._wake = wake
        self._timer = IdleTimer(_SECONDS, call_later, self._end)
        self._due = False

    def used(self) -> None:
        """An epoch has used its rows."""
        if self._queue.lent:
            self._timer.used()

    def settle(self) -> None:
        """End all loans, because the next rows are to be used."""
        self._due = False
        self._queue.settle()

    def rest(self) -> None:
        """End all loans if the task has done nothing for long enough."""
        if self._due:
            self.settle()

    def close(self) -> None:
        """The task is over."""
        self._timer.close()

    def _end(self) -> None:
        self._due = True
        self._wake()
