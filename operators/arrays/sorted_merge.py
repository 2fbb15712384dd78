"""Sorted streams merged into one: by their order, ties by stream.

Contract. Each stream is sorted; an unsorted stream is an error. All rows come out. Among equal keys, rows of an earlier
stream come first, and rows of one stream keep their order. The result, batch by batch, depends on the streams' batches
alone. The merge holds one batch of each stream, and reads the next one only once that batch is used up. All streams are
closed in the end.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...proto.errors import InternalError
from ..core.operator import Stream
from ..core.wide_rows import concatenated, taken
from .ordering import Key, Ordering, SortedKeys
from .stretches import Stretch, code_of


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Neighbouring rows of one stream's batch."""

    batch: pa.RecordBatch
    keys: SortedKeys
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> pa.RecordBatch:
        return self.batch.slice(self.start, len(self))


class _Waiting:
    """The rows of one stream that have been read and have not come out yet."""

    def __init__(self, stream: Stream, number: int, ordering: Ordering) -> None:
        self._stream = stream
        self._number = number
        self._ordering = ordering
        self._last: Key | None = None
        self._part: _Part | None = None

    def fill(self) -> bool:
        """Read on if no rows wait. True where rows wait now."""
        while self._part is None or not len(self._part):
            batch = next(self._stream, None)
            if batch is None:
                return False
            if batch.num_rows:
                self._part = self._checked(_Part(batch, self._ordering.keys(batch), 0, batch.num_rows))
        return True

    @property
    def part(self) -> _Part:
        assert self._part is not None
        return self._part

    @property
    def last(self) -> Key:
        return self.part.keys.at(self.part.stop - 1)

    def before(self, key: Key, *, or_equal: bool) -> _Part:
        """Take the rows that come before `key`."""
        part = self.part
        search = part.keys.upper if or_equal else part.keys.lower
        return self.take(search(key, part.start, part.stop))

    def take(self, stop: int) -> _Part:
        part = self.part
        self._part = _Part(part.batch, part.keys, stop, part.stop)
        return _Part(part.batch, part.keys, part.start, stop)

    def _checked(self, part: _Part) -> _Part:
        if part.keys.first_break() is not None or (self._last is not None and part.keys.at(0) < self._last):
            raise InternalError(f"stream {self._number} of a merge is not sorted as its plan says")
        self._last = part.keys.at(part.stop - 1)
        return part


def merged(streams: Sequence[Stream], ordering: Ordering) -> Generator[pa.RecordBatch]:
    """The rows of all streams, in order."""
    with ExitStack() as stack:
        for stream in streams:
            stack.callback(stream.close)
        waiting = [_Waiting(stream, number, ordering) for number, stream in enumerate(streams)]
        while waiting := [input_ for input_ in waiting if input_.fill()]:
            parts = [part for part in _ready(waiting) if len(part)]
            yield parts[0].rows if len(parts) == 1 else _sorted(parts)


def _ready(waiting: Sequence[_Waiting]) -> list[_Part]:
    """Take the rows that no unread row can come before: up to the least of the streams' last keys.

    More rows with that key may follow in the first stream whose batch ends there, but in no stream before it. So
    streams before it also give their rows with that key, and streams after it do not.
    """
    lasts = [input_.last for input_ in waiting]
    first = min(range(len(lasts)), key=lasts.__getitem__)
    return [
        input_.take(input_.part.stop) if number == first else input_.before(lasts[first], or_equal=number < first)
        for number, input_ in enumerate(waiting)
    ]


def _sorted(parts: Sequence[_Part]) -> pa.RecordBatch:
    together = concatenated([part.rows for part in parts])
    order = np.argsort(code_of([Stretch(part.keys, part.start, part.stop) for part in parts]), kind="stable")
    return taken(together, pa.array(order))
