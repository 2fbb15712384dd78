"""Unnest: a row for each item of a row's list, beside the row's other columns.

Several lists are zipped: a row gives as many rows as its longest list has items, and shorter lists are padded with
nulls. A null list is like an empty one. A row whose lists are all empty gives no row, or with `outer` one row in which
items and ordinality are null. The ordinality counts a row's items from 1.

Order: the input's rows, the items of each in their order. Nulls: a null item is an item. Empty input: no rows. Memory:
the input's batch and one output batch, of at most `rows` rows: a longer list is expanded in slices. Barrier: every row
has been expanded to its end; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..proto.errors import InternalError
from .arrays.casts import plain
from .arrays.layout import Lists, Places, is_list, take
from .arrays.retype import retype, same_layout
from .core.batches import batch_of
from .core.blocks import BLOCK_ROWS
from .core.operator import Operator, Stream


class Unnest(Operator):
    """The operator. `schema` has the columns at positions `keep` of the input, then the items of each of `lists` (lists
    of any kind, and maps, whose items are structs of key and value), then with `ordinality` an int64.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        lists: Sequence[int],
        keep: Sequence[int],
        schema: pa.Schema,
        ordinality: bool = False,
        outer: bool = False,
        rows: int = BLOCK_ROWS,
        plan_path: str = "",
    ) -> None:
        _validate(input_schema, keep, lists, schema, plan_path, ordinality=ordinality, outer=outer)
        self.schema = schema
        self._keep = tuple(keep)
        self._lists = tuple(lists)
        self._items = [schema.field(len(keep) + i).type for i in range(len(lists))]
        self._ordinality = ordinality
        self._outer = outer
        self._rows = rows
        self._plan_path = plan_path

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._run(rows)

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            for batch in rows:
                expansion = _Expansion([Lists(batch.column(i)) for i in self._lists], outer=self._outer)
                for start in range(0, expansion.rows, self._rows):
                    self._stop_if_interrupted()
                    yield self._slice(batch, expansion, start, min(start + self._rows, expansion.rows))

    def _slice(self, batch: pa.RecordBatch, expansion: _Expansion, start: int, stop: int) -> pa.RecordBatch:
        rows, within = expansion.positions(start, stop)
        taken = pa.array(rows)
        columns = [take(batch.column(i), taken) for i in self._keep]
        columns += [
            _typed(_items(lists, rows, within), type_)
            for lists, type_ in zip(expansion.lists, self._items, strict=True)
        ]
        if self._ordinality:
            columns.append(pa.array(within + 1, mask=within >= expansion.longest[rows] if self._outer else None))
        return batch_of(columns, stop - start, self.schema)


class _Expansion:
    """The output rows of a batch: each row gives as many as the `longest` of its lists, and with `outer` at least
    one.
    """

    def __init__(self, lists: Sequence[Lists], *, outer: bool) -> None:
        self.lists = lists
        self.longest: Places = np.maximum.reduce([list_.lengths for list_ in lists])
        self._counts = np.maximum(self.longest, 1) if outer else self.longest
        self._ends = np.cumsum(self._counts)
        self.rows = int(self._ends[-1]) if len(self._ends) else 0

    def positions(self, start: int, stop: int) -> tuple[Places, Places]:
        """For each of these output rows, the input's row and the position within its lists."""
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right")
        begins = self._ends[first : last + 1] - self._counts[first : last + 1]
        ends = np.minimum(self._ends[first : last + 1], stop)
        counts = ends - np.maximum(begins, start)
        within = np.arange(start, stop) - np.repeat(begins, counts)
        return np.repeat(np.arange(first, last + 1), counts), within


def _items(lists: Lists, rows: Places, within: Places) -> pa.Array:
    """The items at these positions, null beyond the end of a list."""
    at = lists.offsets[rows] + within
    beyond = within >= lists.lengths[rows]
    if beyond.any():
        return take(lists.items, pa.array(at, mask=beyond))
    if at[-1] - at[0] == len(at) - 1 and bool(np.all(np.diff(at) == 1)):
        return lists.items.slice(int(at[0]), len(at))
    return take(lists.items, pa.array(at))


def _typed(items: pa.Array, type_: pa.DataType) -> pa.Array:
    """The items with the names and nullability of the result's type."""
    if kinds.is_struct(items.type) and items.type.num_fields == type_.num_fields:
        pairs = zip(items.type, type_, strict=True)
        items = items.view(pa.struct([field.with_name(wanted.name) for field, wanted in pairs]))
    return retype(items, type_)


def _validate(
    input_schema: pa.Schema,
    keep: Sequence[int],
    lists: Sequence[int],
    schema: pa.Schema,
    plan_path: str,
    *,
    ordinality: bool,
    outer: bool,
) -> None:
    if not lists:
        raise InternalError(f"{plan_path}: no list to unnest")
    if len(schema) != len(keep) + len(lists) + ordinality:
        counted = f"{len(keep)} kept columns, {len(lists)} lists and {'an' if ordinality else 'no'} ordinality"
        raise InternalError(f"{plan_path}: {counted} for {len(schema)} columns")
    expected = [input_schema.field(i).type for i in keep]
    expected += [
        _item_type(input_schema.field(i), schema.field(len(keep) + at), plan_path) for at, i in enumerate(lists)
    ]
    expected += [pa.int64()] * ordinality
    for field, type_ in zip(schema, expected, strict=True):
        if not same_layout(field.type, type_):
            raise InternalError(f"{plan_path}: the column {field.name!r} is {type_}, and in the result {field.type}")
    may_be_null = list(schema)[len(keep) : len(keep) + len(lists)] if outer or len(lists) > 1 else []
    may_be_null += list(schema)[-1:] if outer and ordinality else []
    for field in may_be_null:
        if not field.nullable:
            raise InternalError(f"{plan_path}: the column {field.name!r} may be null, and is required in the result")


def _item_type(field: pa.Field, output: pa.Field, plan_path: str) -> pa.DataType:
    if not is_list(field.type):
        raise InternalError(
            f"{plan_path}: the column {field.name!r} is {field.type}: only lists and maps can be unnested"
        )
    type_ = plain(field.type)
    if not kinds.is_map(type_):
        return type_.value_type
    names = [field.name for field in output.type] if kinds.is_struct(output.type) else []
    names = names if len(names) == 2 else ["key", "value"]
    fields = [type_.key_field.with_name(names[0]), type_.item_field.with_name(names[1])]
    return pa.struct(fields)
