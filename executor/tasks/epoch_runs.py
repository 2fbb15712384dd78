"""The runs of a task's epochs. The rows of two runs of an epoch do not belong together.

A durable task computes an epoch again after a restart, or when it goes on after a failure. Where the epoch may have
other rows then, each time is a run of its own, and has a number that no other run of the epoch has. Readers have the
number in their cursors. It is drawn, so no restart has to know the numbers of before: nothing is recorded, and a data
folder that was put back from a copy draws other numbers than the folder did whose place it takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

from ...proto.encoding.number_ranges import LARGEST
from ...proto.errors import OutOfRange
from ...proto.values import Cursor

NO_RUN: Final = 0
"""The run that a reader has who does not know of one, and that of every epoch of a task that ends with its service."""

SAME_ROWS: Final = 1
"""The run of an epoch that has the same rows whenever it is computed."""


class EpochRuns:
    """The runs of a task's epochs in this service. With `repeatable`, an epoch has the same rows in the next service,
    unless something has changed in between. A task that is not `durable` has no runs.
    """

    def __init__(self, *, durable: bool = False, repeatable: bool = True) -> None:
        self._durable = durable
        self._repeatable = repeatable
        self._number = LARGEST - secrets.randbelow(LARGEST - SAME_ROWS)
        self._unrepeatable = 0
        self._changed: frozenset[int] = frozenset()
        self._handed_out: dict[int, int] = {}

    def recover(self, unrepeatable: int, changed: Iterable[int] = ()) -> None:
        """Go on after a restart. The epochs up to `unrepeatable`, and those that have `changed`, may have other rows
        now.
        """
        self._unrepeatable, self._changed = unrepeatable, frozenset(changed)

    def has_other_rows(self, epoch: int) -> bool:
        """True if readers may have other rows of the epoch, from before the task was recovered."""
        return epoch <= self._unrepeatable or epoch in self._changed

    def of(self, epoch: int) -> int:
        """The number of the epoch's run."""
        if not self._durable:
            return NO_RUN
        return SAME_ROWS if self._repeatable and not self.has_other_rows(epoch) else self._number

    def hand_out(self, cursor: Cursor, rows: int) -> Cursor:
        """Record that a reader gets so many rows from the cursor on. Returns the cursor with the run of these rows."""
        if self.has_other_rows(cursor.epoch):
            end = cursor.row + rows
            self._handed_out[cursor.epoch] = max(self._handed_out.get(cursor.epoch, 0), end)
        return Cursor(cursor.epoch, cursor.row, self.of(cursor.epoch))

    def check(self, cursor: Cursor, start: Cursor) -> None:
        """Raise `OutOfRange` for the cursor of a reader who may have rows of another run. Reading can begin at `start`.

        A cursor without a run is that of a reader who cannot tell. It is taken where the epoch has had no other run.
        """
        epoch, row = cursor.epoch, cursor.row
        if not row or cursor.run == self.of(epoch):
            return
        if not cursor.run and not self.has_other_rows(epoch):
            return
        if not cursor.run and row <= self._handed_out.get(epoch, 0):
            if cursor.run is None:  # an older client, which has no other way to read on
                return
            raise OutOfRange(
                f"epoch {epoch} was computed again, and the cursor at its row {row} does not say which of its runs it "
                "belongs to: keep a cursor as the service gives it, with its run",
                reason="CURSOR_WITHOUT_RUN",
            )
        there = f"read from row 0 of epoch {epoch}"
        if start.epoch == epoch and start.row:
            there = f"read from the task's last acknowledged cursor, row {start.row} of epoch {epoch}"
        raise OutOfRange(
            f"epoch {epoch} was computed again, after a restart of the service or without a split that was left out, "
            "and its rows may be others or have another order now: forget the rows that were read of it, and " + there,
            reason="EPOCH_RESTARTED",
        )
