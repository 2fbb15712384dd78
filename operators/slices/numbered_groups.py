"""Groups in arrays by keys of which some are no whole numbers: their values are numbered as they come.

A value that is numbered costs one look into a hash table for each row. From then on it is a whole number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .dense_groups import DenseGroups
from .group_positions import GroupKey
from .group_totals import GroupState
from .wide_sums import integers
from .windows_in_arrays import WindowsInArrays, windows_in_arrays

_MOST_VALUES: Final = BLOCK_ROWS // 4
"""Each block puts all values into a hash table again."""
_MOST_BYTES: Final = 1 << 20


class NumberedGroups:
    """`DenseGroups` whose keys may be numbered. Numbers are those of the values' first rows, so that groups in order of
    their keys are in the order of these rows. There is no room for more than 16,384 values of a key, or a mebibyte.
    """

    def __init__(self, keys: Sequence[GroupKey], states: Sequence[GroupState], room: int) -> None:
        self._dense = DenseGroups(keys, states, room)
        self._room = room
        self._values = {at: _Values() for at, key in enumerate(keys) if key.numbered}
        self._columns = {at: keys[at].column for at in self._values}
        self._added = {state.values for state in states if state.values is not None}

    def add(self, block: pa.RecordBatch) -> bool:
        """Count the rows of the block, as `DenseGroups` does. Values may also be decimals of scale 0."""
        columns = block.columns
        wide = [at for at in self._added if kinds.is_decimal(columns[at].type)]
        for at in wide:
            columns[at] = integers(columns[at])
            if columns[at] is None:
                return False
        for at, values in self._values.items():
            numbers = values.numbers(columns[self._columns[at]])
            if numbers is None:
                return False
            columns[self._columns[at]] = numbers
        changed = wide or self._values
        return self._dense.add(pa.RecordBatch.from_arrays(columns, names=block.schema.names) if changed else block)

    def would_fit(self, block: pa.RecordBatch, room: int) -> bool:
        """Tests whether another room would have been enough for the first keys, of which none is numbered."""
        return self._dense.would_fit(block, room)

    def take(self, schema: pa.Schema, at_once: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """The groups so far, as `DenseGroups` gives them."""
        if not self._values:
            yield from self._dense.take(schema, at_once)
            return
        fields = [pa.field(one.name, pa.int64()) if at in self._values else one for at, one in enumerate(schema)]
        for groups in self._dense.take(pa.schema(fields), at_once):
            columns = groups.columns
            for at, values in self._values.items():
                columns[at] = values.of(columns[at])
            yield batch_of(columns, groups.num_rows, schema)

    def windows(self, types: Sequence[pa.DataType], length: int, step: int) -> WindowsInArrays | None:
        """The windows of `length` slices, `step` slices apart, of the groups so far, whose keys have these types: the
        first key is a slice's number. None where they have to be made of the groups' rows, such as where one
        combination of keys may have more windows than there is room for groups.
        """
        table = self._dense.table()
        if table is None:
            return None
        named = {at - 1: values.of for at, values in self._values.items()}
        return windows_in_arrays(table, types[1:], named, length, step, self._room)


class _Values:
    """Values of a column, of which each has a number."""

    def __init__(self) -> None:
        self._known: pa.Array | None = None

    def numbers(self, column: pa.Array) -> pa.Array | None:
        """The numbers of these values; nulls stay null. None, and no value is new, where there are too many."""
        known = column.slice(0, 0) if self._known is None else self._known
        numbers = pc.index_in(column, value_set=known)
        if numbers.null_count > column.null_count:
            new = column.filter(pc.and_(numbers.is_null(), column.is_valid())).unique()
            if len(known) + len(new) > _MOST_VALUES or known.nbytes + new.nbytes > _MOST_BYTES:
                return None
            known = pa.concat_arrays([known, new])
            numbers = pc.index_in(column, value_set=known)
        self._known = known
        return numbers

    def of(self, numbers: pa.Array) -> pa.Array:
        assert self._known is not None
        return self._known.take(numbers)
