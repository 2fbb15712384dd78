"""Packing: rows of one length, filled with lists of numbers, first fit within a window.

A window is a run of consecutive input rows. Each of its lists goes to the first row of the window that has room. A
longer list is cut into lists of a row's length and the rest. A null list or item is an error.

Order: the windows', and within one that in which rows were begun. Nulls: an error. Empty input: no rows. Memory: the
lists of a window and the rows that they fill. Barrier: the last window ends, however few rows it has; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from ..proto.arrow.first_fit import Array, FilledRows, filled_rows
from ..proto.errors import ExecutionError, InternalError
from .arrays.layout import Lists, Places, is_list
from .core.batches import batch_of
from .core.interrupts import look
from .core.operator import Operator, Stream

_MOST_ITEMS: Final = 1 << 20
"""The items of a batch that the operator yields, unless one row has more."""


class PackLists(Operator):
    """The operator. Its input is one column of lists. `schema` has three: the items, the number of each item's list
    in its row, and its position in its list.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        length: int,
        padding: int,
        window_rows: int,
        schema: pa.Schema,
        plan_path: str = "",
    ) -> None:
        if len(input_schema) != 1 or not is_list(input_schema.field(0).type) or len(schema) != len(FilledRows._fields):
            raise InternalError(f"{plan_path}: {input_schema} cannot be packed into {schema}")
        if length < 1 or window_rows < 1:
            raise InternalError(f"{plan_path}: rows of {length} items and windows of {window_rows} rows")
        self.schema = schema
        self._length = length
        self._padding = padding
        self._window_rows = window_rows
        self._plan_path = plan_path

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        return self._run(rows)

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            for window in self._windows(rows):
                filled = self._filled(window)
                step = max(1, _MOST_ITEMS // self._length)
                for first in range(0, len(filled.items), step):
                    look()
                    yield self._batch(FilledRows(*(column[first : first + step] for column in filled)))

    def _windows(self, rows: Stream) -> Iterator[list[pa.Array]]:
        """The lists of each window, in the arrays in which they came."""
        window: list[pa.Array] = []
        count = 0
        for batch in rows:
            lists = batch.column(0)
            while len(lists):
                part = lists.slice(0, self._window_rows - count)
                lists = lists.slice(len(part))
                window.append(part)
                count += len(part)
                if count == self._window_rows:
                    yield window
                    window, count = [], 0
        if window:
            yield window

    def _filled(self, window: Sequence[pa.Array]) -> FilledRows:
        parts = [self._items(lists) for lists in window]
        lengths = np.concatenate([lengths for _, lengths in parts])
        starts = np.cumsum(lengths) - lengths
        items = np.concatenate([items for items, _ in parts])
        return filled_rows(items, starts, lengths, self._length, self._padding, look)

    def _items(self, array: pa.Array) -> tuple[Array, Places]:
        """The items of lists, one list after the other, and the length of each list."""
        lists = Lists(array)
        if array.null_count:
            raise self._null("a list that is null")
        follow = bool((lists.offsets[1:] == lists.offsets[:-1] + lists.lengths[:-1]).all())
        if follow:
            items = lists.items.slice(int(lists.offsets[0]), int(lists.lengths.sum()))
        else:
            begins = np.cumsum(lists.lengths) - lists.lengths
            within = np.arange(int(lists.lengths.sum())) - np.repeat(begins, lists.lengths)
            items = lists.items.take(pa.array(np.repeat(lists.offsets, lists.lengths) + within))
        if items.null_count:
            raise self._null("a list with a null")
        return items.to_numpy(zero_copy_only=False), lists.lengths

    def _null(self, lists: str) -> ExecutionError:
        return ExecutionError(
            f"{self._plan_path}: {lists} cannot be packed: filter it out below the packing, or use coalesce",
            reason="NULL_TOKENS",
        )

    def _batch(self, rows: FilledRows) -> pa.RecordBatch:
        count = len(rows.items)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(self._length))
        columns = [
            pa.ListArray.from_arrays(offsets, pa.array(column.ravel()), type=field.type)
            for column, field in zip(rows, self.schema, strict=True)
        ]
        return batch_of(columns, count, self.schema)
