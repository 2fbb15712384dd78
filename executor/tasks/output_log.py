"""A task's output: every row at its cursor (epoch, row), kept until it is acknowledged.

The log is plain bookkeeping under the task's lock. `offer` has three answers for a batch: the batch was taken, the
producing thread must spill first (without the lock), or the producer has to wait. A producer that can wait at no cost
waits for its reader before anything spills, so that unread rows are no more than fit in memory.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...proto.errors import OutOfRange
from ...proto.values import Barrier, Cursor, Data
from ..runtime.batch_store import Holding, Quota, SpillFile, SpillRun, Store
from .epoch_runs import NO_RUN, EpochRuns


class Full(enum.Enum):
    """The producer has to wait.

    - UNREAD: until more has been read
    - FULL: until something is acknowledged, because neither memory nor the quota has room
    """

    UNREAD = enum.auto()
    FULL = enum.auto()


@dataclass(slots=True, eq=False)
class EpochOutput:
    """The output of an epoch. `starts[i]` is the first row of `chunks[i]`; `barrier` is set at the epoch's barrier."""

    number: int
    rows: int = 0
    size: int = 0
    chunks: list[Holding] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    barrier: Barrier | None = None


class OutputLog:
    """The output of a task. `completed` epochs came before its start, and count as acknowledged.

    `acknowledged` is where reading can begin.
    """

    def __init__(self, memory_limit: int, quota: Quota, completed: int = 0, runs: EpochRuns | None = None) -> None:
        self._store = Store(memory_limit, quota)
        self._epochs: dict[int, EpochOutput] = {}
        self.acknowledged = Cursor(completed + 1)
        self.completed = completed
        self._limit = memory_limit
        self._read = Cursor(completed + 1)
        self._void = 0
        """The epoch that failed last. Its reader may have rows that are not here any more."""
        self.rows = 0
        self.size = 0
        self._runs = runs or EpochRuns()
        self._recovered = 0
        self._of_other_run: Cursor | None = None

    def recover(self, acknowledged: Cursor, through: int) -> None:
        """Go on after a restart. Readers may have rows of the epochs up to `through`, which are computed again."""
        self._recovered, start = through, acknowledged
        if acknowledged.row and self._runs.has_other_rows(acknowledged.epoch):
            self._of_other_run, start = acknowledged, Cursor(acknowledged.epoch)
        self.acknowledged = self._read = max(self.acknowledged, self._of_this_run(start))

    @property
    def last_acknowledged(self) -> Cursor:
        """The cursor that readers acknowledged last. It may be in the middle of an epoch that has other rows since a
        restart: a reader who goes on there is told so.
        """
        return self._of_other_run or self.acknowledged

    def _of_this_run(self, cursor: Cursor) -> Cursor:
        return Cursor(cursor.epoch, cursor.row, self._runs.of(cursor.epoch) if cursor.row else NO_RUN)

    @property
    def memory(self) -> int:
        return self._store.memory

    @property
    def disk(self) -> int:
        return self._store.disk

    # ------------------------------------------------------------------------------------------------- writing

    def offer(self, epoch: int, holding: Holding, *, can_wait: bool = False) -> SpillRun | Full | None:
        """Offer a batch.

        - None: the batch was taken.
        - A run: write it, then call `spilled`.
        - `Full`: offer the batch again after something was read or freed.
        """
        if epoch <= self._recovered and Cursor(epoch, self.produced(epoch)[0] + holding.rows) <= self.acknowledged:
            self._count(self._epoch(epoch), holding)
            return None
        if self._store.fits(holding):
            self._store.put(holding)
            self._append(epoch, holding)
            return None
        if can_wait and self.unread(holding.size) > self._limit:
            return Full.UNREAD
        run = self._store.take_run(holding)
        if run is not None:
            return run
        if self._store.memory or self._store.disk:
            return Full.FULL
        self._store.put(holding)  # alone, a batch may be larger than the limit: there is no smaller step
        self._append(epoch, holding)
        return None

    def unread(self, more: int = 0) -> int:
        """The approximate unread bytes, with `more` unread bytes to come; 0 if only those are unread."""
        numbers = range(self._read.epoch, self.completed + 2)
        size = sum(self._unread(self._epochs[number]) for number in numbers if number in self._epochs)
        return size + more if size else 0

    def _unread(self, output: EpochOutput) -> int:
        if output.number > self._read.epoch or not self._read.row:
            return output.size
        return output.size * max(output.rows - self._read.row, 0) // max(output.rows, 1)

    def read_to(self, cursor: Cursor) -> None:
        """Record that the reader has everything before this cursor, because it asks for what follows."""
        self._read = max(self._read, cursor)

    def spilled(self, epoch: int, run: SpillRun, file: SpillFile) -> None:
        self._store.spilled(run, file)
        self._append(epoch, run.holdings[-1])

    def give_back(self, run: SpillRun) -> None:
        self._store.give_back(run)

    def _append(self, epoch: int, holding: Holding) -> None:
        output = self._epoch(epoch)
        output.starts.append(output.rows)
        output.chunks.append(holding)
        self._count(output, holding)

    def _count(self, output: EpochOutput, holding: Holding) -> None:
        output.rows += holding.rows
        output.size += holding.size
        self.rows += holding.rows
        self.size += holding.size

    def _epoch(self, number: int) -> EpochOutput:
        output = self._epochs.get(number)
        if output is None:
            output = self._epochs[number] = EpochOutput(number)
        return output

    def produced(self, epoch: int) -> tuple[int, int]:
        """Rows and bytes of an epoch so far."""
        output = self._epochs.get(epoch)
        return (output.rows, output.size) if output is not None else (0, 0)

    @property
    def end(self) -> Cursor:
        """The place behind the last row that there is."""
        return Cursor(self.completed + 1, self.produced(self.completed + 1)[0])

    @property
    def is_read(self) -> bool:
        """True if a producer that waits for its reader should go on."""
        return self.unread() <= self._limit // 2

    def complete(self, barrier: Barrier) -> None:
        self._epoch(barrier.epoch).barrier = barrier
        self.completed = barrier.epoch
        if barrier.epoch < self.acknowledged.epoch:
            self._free(self._epochs.pop(barrier.epoch).chunks)

    def void(self, epoch: int) -> None:
        """Drop the rows of an epoch that failed."""
        self._void = epoch
        output = self._epochs.pop(epoch, None)
        if output is not None:
            self._free(output.chunks)
            self.rows -= output.rows
            self.size -= output.size

    # ------------------------------------------------------------------------------------------------- reading

    def check(self, cursor: Cursor) -> None:
        """Raise `OutOfRange` if the cursor is before the acknowledged rows or beyond the end of its epoch."""
        if cursor.epoch < 1 or cursor.row < 0:
            raise OutOfRange(
                f"there is no row {cursor.row} of epoch {cursor.epoch}: epochs count from 1, and rows from 0"
            )
        if cursor.epoch >= self.acknowledged.epoch:
            self._runs.check(cursor, self.acknowledged)
        if cursor < self.acknowledged:
            raise OutOfRange(
                f"{_row_text(cursor)} was acknowledged and is gone; reading can start at {_row_text(self.acknowledged)}"
            )
        output = self._epochs.get(cursor.epoch)
        if output is None or output.barrier is None or output.barrier.error is not None:
            return
        if cursor.row > output.rows:
            raise OutOfRange(
                f"epoch {cursor.epoch} has {output.rows} rows, so there is no row {cursor.row}; reading can start at "
                f"any row from {_row_text(self.acknowledged)} on"
            )

    def barrier(self, epoch: int) -> Barrier | None:
        output = self._epochs.get(epoch)
        return output.barrier if output is not None else None

    def read(self, cursor: Cursor, max_bytes: int) -> Data | None:
        """Rows from a checked cursor on, about `max_bytes` of them but at least one; None if there are none yet."""
        output = self._epochs.get(cursor.epoch)
        if output is None or cursor.row >= output.rows:
            return None
        taken: list[pa.RecordBatch] = []
        room = max_bytes
        for batch, first, size in _from_row(output, cursor.row):
            if size <= room:
                taken.append(_part(batch, first, size, room) if first else batch)
                room -= size
                continue
            if not taken or 2 * room > max_bytes:
                taken.append(_part(batch, first, size, room))
            break
        rows = sum(batch.num_rows for batch in taken)
        return Data(cursor=self._runs.hand_out(cursor, rows), rows=rows, batches=tuple(taken))

    # ------------------------------------------------------------------------------------------ acknowledging

    def acknowledge(self, cursor: Cursor) -> bool:
        """Forget everything before an existing cursor; True if that changed anything."""
        if cursor <= self.acknowledged:
            return False
        self.check_exists(cursor)
        self.acknowledged, self._of_other_run = self._of_this_run(cursor), None
        for number in [number for number in self._epochs if number < cursor.epoch]:
            self._free(self._epochs.pop(number).chunks)
        output = self._epochs.get(cursor.epoch)
        if output is not None and cursor.row:
            gone = bisect_right(output.starts, cursor.row) - 1
            if output.rows <= cursor.row:
                gone = len(output.chunks)
            self._free(output.chunks[:gone])
            del output.chunks[:gone], output.starts[:gone]
        return True

    def check_exists(self, cursor: Cursor) -> None:
        """Raise `OutOfRange` if the cursor does not exist yet.

        A reader may have read rows of a failed epoch, which are void now, and rows that are not computed again yet.
        """
        if cursor <= self.acknowledged:
            return
        self._runs.check(cursor, self.acknowledged)
        barrier = self.barrier(cursor.epoch)
        if barrier is None and self.completed < cursor.epoch <= self._recovered:
            return
        if cursor.epoch == self._void or (barrier is not None and barrier.error is not None):
            return
        if cursor.epoch > self.completed + 1 or cursor.row > self.produced(cursor.epoch)[0]:
            raise OutOfRange(f"{_row_text(cursor)} is not produced yet; output goes up to {_row_text(self.end)}")

    def _free(self, chunks: Iterable[Holding]) -> None:
        for chunk in chunks:
            self._store.free(chunk)

    def clear(self) -> None:
        for output in self._epochs.values():
            self._free(output.chunks)
        self._epochs.clear()


def _row_text(cursor: Cursor) -> str:
    return f"row {cursor.row} of epoch {cursor.epoch}"


def _from_row(output: EpochOutput, row: int) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The batches from a row on, each with its first row to be read, and about the bytes from there."""
    first = bisect_right(output.starts, row) - 1
    skip = row - output.starts[first]
    for chunk in output.chunks[first:]:
        for batch in chunk.batches():
            rows = batch.num_rows
            if skip < rows:
                size = chunk.size if chunk.count == 1 else batch_bytes(batch)
                yield batch, skip, size * (rows - skip) // rows
            skip = max(0, skip - rows)


def _part(batch: pa.RecordBatch, first: int, size: int, room: int) -> pa.RecordBatch:
    """About as many rows from `first` on as fit into `room`, at least one; wide rows may stand first or last.

    The rows are cut into equal parts, so that no answer has only a small rest of the batch.
    """
    parts = max(1, -(-8 * size // (9 * room)))
    rows = -(-(batch.num_rows - first) // parts)
    while True:
        part = batch.slice(first, rows)
        if rows == 1 or batch_bytes(part) <= room + room // 4:
            return part
        rows //= 2
