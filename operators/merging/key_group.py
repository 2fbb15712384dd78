"""The held rows of one key, and their join with the probed rows of that key.

Either side may have any number of rows. Held rows that are more than a block are read again for each probed row, and
held rows beyond the memory limit are read from a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..arrays.layout import Flags
from ..core.blocks import BLOCK_ROWS
from ..core.interrupts import look
from ..core.key_rows import KeyRows
from .matcher import Matcher, ProbeRows


class KeyGroup:
    """The group of one key. Call `add` for all held rows, then `seal`, then `join` for the probed rows, then `rest`.
    `fertile` is False where the key matches nothing.
    """

    def __init__(self, matcher: Matcher, rows: KeyRows, *, fertile: bool) -> None:
        self._matcher = matcher
        self._rows = rows
        self._fertile = fertile
        self._asked = False
        self._hit: Flags | None = None
        self._whole: pa.RecordBatch | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows.add(rows)

    def seal(self) -> None:
        self._rows.seal()
        if self._matcher.condition is not None and self._matcher.meaning.held_alone:
            self._hit = np.zeros(self._rows.rows, dtype=np.bool_)

    def join(self, probe: ProbeRows) -> Iterator[pa.RecordBatch]:
        """The join's rows for these probed rows, which have the group's key."""
        if not self._fertile:
            yield from self._matcher.probe_alone(probe.rows())
            return
        self._asked = True
        if self._matcher.meaning.asks_whether and self._matcher.condition is None:
            if self._matcher.meaning.matched:
                yield self._matcher.pieces.probe_alone(probe.rows())
        elif self._rows.rows <= BLOCK_ROWS and not self._rows.spilled:
            yield from self._with_all(probe)
        else:
            for row in range(probe.start, probe.stop):
                yield from self._with_each_batch(probe, row)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The held rows without a match, after all probed rows of the key."""
        if not self._matcher.meaning.held_alone:
            return
        if self._hit is None:
            if not (self._asked and self._fertile):
                for batch in self._rows.batches():
                    yield from self._matcher.held_alone(batch)
            return
        at = 0
        for batch in self._rows.batches():
            lost = ~self._hit[at : at + batch.num_rows]
            at += batch.num_rows
            yield from self._matcher.held_alone(batch.filter(pa.array(lost)))

    def close(self) -> None:
        self._rows.close()

    def _with_all(self, probe: ProbeRows) -> Iterator[pa.RecordBatch]:
        """The join of as many probed rows at a time as make a block of pairs."""
        if self._whole is None:
            self._whole = pa.concat_batches(list(self._rows.batches()))
        count = self._whole.num_rows
        step = max(1, BLOCK_ROWS // count)
        for start in range(probe.start, probe.stop, step):
            look()  # a condition may leave no rows of very many pairs
            part = ProbeRows(probe.batch, start, min(start + step, probe.stop), probe.describe)
            probe_rows = np.repeat(np.arange(part.start, part.stop), count)
            held_rows = np.tile(np.arange(count), part.stop - part.start)
            probe_rows, held_rows = self._matcher.kept(probe.batch, probe_rows, self._whole, held_rows)
            if self._hit is not None:
                self._hit[held_rows] = True
            yield from self._matcher.output(part, probe_rows, self._whole, held_rows)

    def _with_each_batch(self, probe: ProbeRows, row: int) -> Iterator[pa.RecordBatch]:
        """The join of one probed row with all held rows, a batch at a time."""
        meaning, count, at = self._matcher.meaning, 0, 0
        for batch in self._rows.batches():
            look()
            rows = np.arange(batch.num_rows)
            repeated, rows = self._matcher.kept(probe.batch, np.full(len(rows), row), batch, rows)
            if self._hit is not None:
                self._hit[at + rows] = True
            at += batch.num_rows
            count += len(rows)
            if meaning.single and count > 1:
                raise self._matcher.second_match(probe, row)
            if not meaning.pairs and count:
                break
            if len(rows):
                yield from self._matcher.pieces.pairs(probe.batch, repeated, batch, rows)
        one = ProbeRows(probe.batch, row, row + 1, probe.describe)
        if not meaning.pairs:
            yield from self._matcher.asked(one, np.array([count > 0]))
        elif not count:
            yield from self._matcher.probe_alone(one.rows())
