"""AsOfMergeJoin: each row of one sorted input beside the latest row of the other one that is not later.

Both inputs are sorted by the keys and then by their ticks. A left row matches the last right row, in the order of the
right input, of equal keys whose tick is at most the left row's, and at least that tick less the tolerance.

Order: the left rows' order. Nulls: a null key matches nothing; ticks are never null. Empty input: no rows, or with
`outer` the left rows beside nulls.

Memory: a batch of each input and one right row. Each input is read one batch at a time; the next batch is read when no
row of the last one waits. The right input is closed when the left one ends. Barrier: nothing is kept. An input that is
not sorted is an error that names both rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..proto.errors import InternalError
from .arrays.layout import Flags, Words
from .arrays.ordering import Order, Ordering, SortedKeys
from .arrays.stretches import Stretch, code_of
from .core.blocks import gathered
from .core.operator import Operator, Stream
from .core.sizes import BATCH_BYTES
from .core.wide_rows import taken
from .merging.kinds import MEANINGS, MergeJoinType
from .merging.pieces import Pieces
from .merging.sorted_input import SortedInput

_FEW_ROWS: Final = 4_096
"""Batches of fewer rows wait for others, and for the end at the latest."""
_LEAST_TICK: Final = -(2**63)
_NOTHING: Final = -1


class AsOfMergeJoin(Operator):
    """The operator. `run` takes the left and the right stream.

    `keys` are pairs of columns, a left one and a right one; `ticks` is the pair of the columns of the times, which are
    64-bit integers. `schema` has the left side's columns and then the right side's.
    """

    def __init__(
        self,
        *,
        left: pa.Schema,
        right: pa.Schema,
        keys: Sequence[tuple[int, int]],
        ticks: tuple[int, int],
        outer: bool,
        tolerance: int | None,
        schema: pa.Schema,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._keys = len(keys)
        self._ticks = ticks
        self._outer = outer
        self._tolerance = tolerance
        self._plan_path = plan_path
        self._orders = [Ordering([Order(column=pair[side]) for pair in (*keys, ticks)]) for side in (0, 1)]
        meaning = MEANINGS[MergeJoinType.LEFT if outer else MergeJoinType.INNER]
        self._pieces = Pieces(meaning, schema, left, right)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if len(inputs) != 2:
            raise InternalError(f"{self._plan_path}: an as-of merge join takes two inputs, not {len(inputs)}")
        self._interrupted = False
        return self._run(inputs)

    def _run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        strict = range(self._keys)
        try:
            left, right = (
                SortedInput(name, stream, order, strict, self._plan_path)
                for name, stream, order in zip(("left", "right"), inputs, self._orders, strict=True)
            )
            yield from gathered(self._joined(left, right), _FEW_ROWS, BATCH_BYTES)
        finally:
            for stream in inputs:
                stream.close()

    def _joined(self, left: SortedInput, right: SortedInput) -> Iterator[pa.RecordBatch]:
        """The join. `latest` is the last right row that has been passed, in a batch by itself."""
        latest: pa.RecordBatch | None = None
        while left.fill():
            self._stop_if_interrupted()
            more = right.fill()
            if not more and latest is None and not self._outer:
                left.drop()
                return
            to = left.lower(right.last) if more else left.stop  # a later right row may have that very key
            if to > left.start:
                passed = right.upper(left.keys.at(to - 1)) if more else right.start
                yield from self._matched(left, to, right, passed, latest)
                left.advance(to)
            else:
                passed = right.stop
            if passed > right.start:
                latest = taken(right.batch, pa.array([passed - 1]))
                right.advance(passed)
        right.drop()

    def _matched(
        self, left: SortedInput, to: int, right: SortedInput, passed: int, latest: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the left rows up to `to`: their matches are the right rows up to `passed`, or the latest row."""
        start = left.start
        ones, twos = left.stretch(to), right.stretch(passed)
        stretches = [Stretch(self._orders[1].keys(latest), 0, 1)] if latest is not None else []
        count = len(stretches)
        stretches += [twos, ones]
        rows = count + len(twos)
        code = code_of(stretches)
        at = np.searchsorted(code[:rows], code[rows:], side="right") - 1
        is_match = at >= 0
        if self._keys:
            of_keys = code_of([_without_tick(stretch) for stretch in stretches])
            is_match &= of_keys[at] == of_keys[rows:]  # where there is no right row, the flag is False already
        nulls = ones.keys.nulls(range(self._keys), start, to)
        if nulls is not None:
            is_match &= ~nulls
        if self._tolerance is not None:
            is_match &= self._near(left, ones, right, twos, latest, at)
        before = int(np.searchsorted(at, count))  # left rows whose match is no row that waits
        if latest is None:
            yield from self._pairs(left.batch, start, np.full(before, _NOTHING), right.batch)
        else:
            yield from self._pairs(left.batch, start, np.where(is_match[:before], at[:before], _NOTHING), latest)
        waiting = np.where(is_match[before:], at[before:] - count + twos.start, _NOTHING)
        yield from self._pairs(left.batch, start + before, waiting, right.batch)

    def _near(
        self,
        left: SortedInput,
        ones: Stretch,
        right: SortedInput,
        twos: Stretch,
        latest: pa.RecordBatch | None,
        at: Words,
    ) -> Flags:
        """True where the right row at this position is near enough."""
        assert self._tolerance is not None
        mine, theirs = self._ticks
        ticks = left.batch.column(mine).to_numpy(zero_copy_only=False)[ones.start : ones.stop]
        others = right.batch.column(theirs).to_numpy(zero_copy_only=False)[twos.start : twos.stop]
        if latest is not None:
            others = np.concatenate([latest.column(theirs).to_numpy(zero_copy_only=False), others])
        if not len(others):
            return np.zeros(len(at), np.bool_)
        all_near = ticks < _LEAST_TICK + self._tolerance
        near: Flags = all_near | (others[at] >= np.where(all_near, _LEAST_TICK, ticks - self._tolerance))
        return near

    def _pairs(
        self, left: pa.RecordBatch, first: int, matches: Words, right: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """The left rows from `first` on, beside the rows of `right` at these positions."""
        rows = np.arange(first, first + len(matches))
        if not self._outer:
            is_match = matches != _NOTHING
            rows, matches = rows[is_match], matches[is_match]
        if len(rows):
            yield from self._pieces.pairs(left, rows, right, matches)


def _without_tick(stretch: Stretch) -> Stretch:
    keys = stretch.keys
    return Stretch(SortedKeys(keys.columns[:-1], keys.length), stretch.start, stretch.stop)
