"""A sorted stream, a batch at a time: its rows with their keys, and a check of their order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...proto.arrow.shown_values import shown
from ...proto.arrow.without_rows import no_rows
from ...proto.errors import ExecutionError
from ..arrays.ordering import Key, Ordering, SortedKeys
from ..arrays.stretches import Stretch
from ..core.blocks import BLOCK_ROWS
from ..core.operator import Stream


class SortedInput:
    """A sorted input. Rows `start` to `stop` of `batch` wait. `fill` reads the next batch once no row waits, never
    before.

    `strict_keys` are the positions of the keys under which a null matches nothing.
    """

    def __init__(
        self, name: str, stream: Stream, ordering: Ordering, strict_keys: Sequence[int], plan_path: str
    ) -> None:
        self.batch: pa.RecordBatch = no_rows(stream.schema)
        self.keys: SortedKeys = ordering.keys(self.batch)
        self.start = 0
        self.stop = 0
        self._name = name
        self._stream = stream
        self._ordering = ordering
        self._strict_keys = tuple(strict_keys)
        self._plan_path = plan_path
        self._rest: pa.RecordBatch | None = None
        self._first_row = 0
        self._ended = False

    @property
    def waiting(self) -> bool:
        return self.start < self.stop

    @property
    def last(self) -> Key:
        return self.keys.at(self.stop - 1)

    @property
    def barren(self) -> bool:
        """True where no row from the first waiting one on can match, because its first key is null."""
        if 0 not in self._strict_keys or self._ordering.orders[0].nulls_first:
            return False
        nulls = self.keys.columns[0].nulls
        return nulls is not None and self.waiting and bool(nulls[self.start])

    def fill(self) -> bool:
        """Read a batch if no row waits. False where no row waits and none is to come."""
        while not self.waiting and not self._ended:
            batch = self._rest if self._rest is not None else next(self._stream, None)
            self._rest = None
            if batch is None:
                self.drop()
            elif batch.num_rows > BLOCK_ROWS:
                self._rest = batch.slice(BLOCK_ROWS)
                self._take(batch.slice(0, BLOCK_ROWS))
            elif batch.num_rows:
                self._take(batch)
        return self.waiting

    def drop(self) -> None:
        """Close the input, and the stream that it reads: no more of its rows are wanted."""
        self._ended = True
        self.start = self.stop
        self._rest = None
        self._stream.close()

    def advance(self, to: int) -> None:
        self.start = to

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        if start == 0 and stop == self.batch.num_rows:
            return self.batch
        return self.batch.slice(start, stop - start)

    def stretch(self, to: int) -> Stretch:
        return Stretch(self.keys, self.start, to)

    def lower(self, key: Key) -> int:
        return self.keys.lower(key, self.start, self.stop)

    def upper(self, key: Key) -> int:
        return self.keys.upper(key, self.start, self.stop)

    def describe(self, row: int) -> str:
        """A row of the batch by its number in the stream and its keys' values."""
        return _described(self.batch, self._ordering, row, self._first_row)

    def _take(self, batch: pa.RecordBatch) -> None:
        before, first_row = self.batch, self._first_row + self.batch.num_rows
        keys = self._ordering.keys(batch)
        if before.num_rows and keys.at(0) < self.keys.at(before.num_rows - 1):
            earlier = _described(before, self._ordering, before.num_rows - 1, self._first_row)
            raise self._unsorted(earlier, _described(batch, self._ordering, 0, first_row))
        broken = keys.first_break()
        if broken is not None:
            earlier, later = (_described(batch, self._ordering, row, first_row) for row in (broken - 1, broken))
            raise self._unsorted(earlier, later)
        self.batch, self.keys, self._first_row = batch, keys, first_row
        self.start, self.stop = 0, batch.num_rows

    def _unsorted(self, earlier: str, later: str) -> ExecutionError:
        wanted = ", ".join(
            f"{self.batch.schema.field(order.column).name!r} {'descending' if order.descending else 'ascending'}"
            f" nulls {'first' if order.nulls_first else 'last'}"
            for order in self._ordering.orders
        )
        return ExecutionError(
            f"{self._plan_path}: the {self._name} input of the merge join must be sorted by {wanted}: {later} comes "
            f"after {earlier} (rows counted from 0)",
            reason="INPUT_NOT_SORTED",
        )


def _described(batch: pa.RecordBatch, ordering: Ordering, row: int, first_row: int) -> str:
    columns = [order.column for order in ordering.orders]
    values = ", ".join(f"{batch.schema.field(i).name}={shown(batch.column(i)[row])}" for i in columns)
    return f"row {first_row + row} ({values})"
