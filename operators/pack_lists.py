"""Packing: rows of one length, filled with lists of numbers, first fit within a window.

A window is a run of consecutive input rows. Each of its lists goes to the first row of the window that has room. A
longer list is cut into lists of a row's length and the rest. A null list or item is an error.

Order: the windows', and within one that in which rows were begun. Nulls: an error. Empty input: no rows. Memory: the
lists of a window, up to a quarter of `memory_limit`, and a few of the rows that they fill. Barrier: the last window
ends, however few rows it has; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from ..proto.arrow.first_fit import PLACE_BYTES, Array, FilledRows, FirstFit, parts
from ..proto.errors import ExecutionError, InternalError
from .arrays.layout import Lists, Places, is_list
from .core.batches import batch_of
from .core.interrupts import look
from .core.operator import Operator, Stream

_MOST_ITEMS: Final = 1 << 18
"""The items of a batch that the operator yields, unless one row has more."""
_SHARE: Final = 4
"""The lists of a window may take one part in so many of the memory."""


@dataclass(slots=True)
class _Window:
    """The items of each array of lists in a window, one list after the other, and the lengths of the lists. `size` is
    about the number of bytes that it takes to pack them.
    """

    rows: int = 0
    size: int = 0
    items: list[Array] = field(default_factory=list)
    lengths: list[Places] = field(default_factory=list)

    def joined(self) -> Array:
        """All items, which the window no longer has."""
        whole = np.empty(sum(map(len, self.items)), self.items[0].dtype)
        end = len(whole)
        while self.items:
            last = self.items.pop()
            whole[end - len(last) : end] = last
            end -= len(last)
        return whole


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
        memory: int,
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
        self._most = memory // _SHARE
        self._plan_path = plan_path

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        return self._run(rows)

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            for window in self._windows(rows):
                lengths = np.concatenate(window.lengths)
                starts = np.cumsum(lengths) - lengths
                fit = FirstFit(window.joined(), starts, lengths, self._length, self._padding, look)
                step = max(1, _MOST_ITEMS // self._length)
                for first in range(0, fit.rows, step):
                    look()
                    yield self._batch(fit.filled(first, min(first + step, fit.rows)))

    def _windows(self, rows: Stream) -> Iterator[_Window]:
        window = _Window()
        for batch in rows:
            lists = batch.column(0)
            while len(lists):
                part = lists.slice(0, self._window_rows - window.rows)
                lists = lists.slice(len(part))
                self._add(window, part)
                if window.rows == self._window_rows:
                    yield window
                    window = _Window()
        if window.rows:
            yield window

    def _add(self, window: _Window, lists: pa.Array) -> None:
        items, lengths = self._items(lists)
        window.rows += len(lists)
        window.size += items.nbytes + PLACE_BYTES * int(parts(lengths, self._length).sum())
        if window.size > self._most:
            raise ExecutionError(
                f"{self._plan_path}: {window.rows:,} rows of a window of {self._window_rows:,} take {window.size:,} "
                f"bytes; a window may take {self._most:,} with this memory_limit: choose fewer window_rows, or raise "
                "memory_limit",
                reason="MEMORY_LIMIT",
            )
        window.items.append(items)
        window.lengths.append(lengths)

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
