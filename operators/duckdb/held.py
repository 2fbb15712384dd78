"""An input's rows, held so that a second run of a statement reads the same ones: in memory at first, then in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from ...proto.arrow.without_rows import no_rows
from ...proto.errors import TidegateError


def limited_room(folder: str, limit: int | None, full: Callable[[], TidegateError]) -> SpillRoom:
    """A room of `limit` bytes, if there is a limit. Beyond it the error of `full` is raised."""
    if limit is None:
        return SpillRoom(folder)
    left = limit

    def take(size: int) -> bool:
        nonlocal left
        left -= size
        return left >= 0

    return SpillRoom(folder, take, full=lambda _: full())


class HeldRows:
    """The held rows of one input. `close` removes their file."""

    def __init__(self, batches: Iterator[pa.RecordBatch], room: SpillRoom) -> None:
        self._rest = batches
        self._buffer = SpillBuffer(room, 0)
        self._stored = False

    def fill(self, most: int) -> int:
        """Take rows into memory, to the end or until there are more than `most` bytes, and return the bytes. Once later
        rows are in the file no more are taken: they would come before the rows in the file.
        """
        while not self._buffer.spilled and self._buffer.bytes <= most:
            batch = next(self._rest, None)
            if batch is None:
                break
            self._buffer.hold(batch)
        return self._buffer.bytes

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row, among the rows in memory."""
        return int(self._buffer.bytes // max(self.rows, 1))

    @property
    def rows(self) -> int:
        """The number of rows in memory."""
        return sum(batch.num_rows for batch in self._buffer.in_memory)

    def joined(self, schema: pa.Schema, most: int) -> pa.RecordBatch | None:
        """The rows in memory as one batch; None where there are more than `most` rows."""
        batches = self._buffer.in_memory
        if sum(batch.num_rows for batch in batches) > most:
            return None
        match batches:
            case []:
                return no_rows(schema)
            case [batch]:
                return batch
            case _:
                return pa.concat_batches(batches)

    def store(self) -> None:
        """Write all rows that are not in memory to the file: all rows, if `fill` was not called. A reading that has
        begun goes on in the file.
        """
        self._stored = True
        for batch in self._rest:
            self._buffer.store(batch)

    def read(self, *, again: bool, last: bool = False) -> Iterator[pa.RecordBatch]:
        """All rows, from the first one on. Rows in memory can be read again unless this is the `last` reading; with
        `again`, the other rows, too.
        """
        if last:
            yield from self._buffer.drained()
        else:
            yield from self._buffer.in_memory
        if self._buffer.spilled:
            self.store()  # the rest of a reading that was closed before its end
        in_file = 0
        while not self._stored:
            batch = next(self._rest, None)
            if batch is None:
                return
            if again:
                self._buffer.store(batch)
                in_file += 1
            yield batch
        self._buffer.seal()
        yield from self._buffer.stored(in_file)

    def close(self) -> None:
        self._buffer.close()
