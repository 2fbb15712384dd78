"""StreamingAggregate: groups of neighbouring rows, each handed out as soon as it has ended.

The input is sorted by the keys, or merely clustered: rows of a group are neighbours. A key that comes again after
others begins another group. Keys compare as in SQL: null equals null, NaN equals NaN, -0.0 equals 0.0. The key handed
out is that of the group's first row.

Order: groups in the order of the input. Nulls: a null key is a key like any other; each aggregate defines the meaning
of a null value. Empty input: no rows; without keys one row, with SQL's result for no rows. Memory: two of the stretches
that the input is read in (131,072 rows, 16 MiB), and the state of the aggregates of one group, which DuckDB may spill.
Barrier: the open group is handed out, and the next epoch begins with fresh groups.

One statement computes the aggregates of all groups that end in a stretch. A group that goes on for a stretch or more is
not kept: the statement reads on until the group has ended. Both give a group's rows to its aggregates one after the
other, in the order of the input, so that no bit depends on where stretches are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..proto.arrow.shown_values import shown_names
from ..proto.errors import ExecutionError, InternalError
from .arrays.layout import Places, take
from .arrays.neighbours import starts
from .arrays.ordering import Order, Ordering, obstacle
from .core.batches import batch_of
from .core.blocks import BLOCK_BYTES, BLOCK_ROWS, gathered
from .core.operator import Operator, Stream
from .duckdb.fragment import Fragment
from .duckdb.instances import Instance
from .duckdb.statement_inputs import StreamSource
from .group_measures import GroupMeasures, Measure, Part, joined


class StreamingAggregate(Operator):
    """The operator. `measures` are over the columns c0, c1, ... of the relation `in0`, which is the input. `schema` has
    a column for each of `keys` (positions of the input's columns), then one for each measure. `order` is by keys alone;
    input that is not sorted by it is an error that names two rows.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        keys: Sequence[int],
        measures: Sequence[Measure],
        schema: pa.Schema,
        instance: Instance,
        order: Sequence[Order] = (),
        plan_path: str = "",
    ) -> None:
        _validate(input_schema, keys, measures, schema, plan_path)
        _validate_order(input_schema, keys, order, plan_path)
        self.schema = schema
        self._keys = tuple(keys)
        self._order = tuple(order)
        self._plan_path = plan_path
        self._measures: GroupMeasures | None = None
        self._whole: Fragment | None = None
        if not keys:
            source = StreamSource(relation="in0", schema=input_schema, size_class=BLOCK_ROWS)
            sql = f"SELECT {', '.join(measure.sql for measure in measures)} FROM in0"
            self._whole = Fragment(sql, schema=schema, instance=instance, streams=[source], plan_path=plan_path)
        elif measures:
            outputs = list(schema)[len(keys) :]
            self._measures = GroupMeasures(input_schema, measures, outputs, instance=instance, plan_path=plan_path)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._groups(rows) if self._whole is None else self._whole.run([rows])

    def interrupt(self) -> None:
        super().interrupt()
        for part in (self._measures, self._whole):
            if part is not None:
                part.interrupt()

    def close(self) -> None:
        for part in (self._measures, self._whole):
            if part is not None:
                part.close()

    def _groups(self, rows: Stream) -> Generator[pa.RecordBatch]:
        """The groups that end in each block, block by block. The rows of the open group wait for the next block."""
        with closing(rows):
            order = _OrderCheck(rows.schema, self._order, self._plan_path) if self._order else None
            source = _KeyedBlocks(rows, self._keys, order, self._stop_if_interrupted)
            held: pa.RecordBatch | None = None
            for block, begins in source:
                if held is not None and not begins.size:
                    group = _LongGroup(held, block, source)
                    yield self._long(group)
                    if group.rest is None:
                        return
                    held, (block, begins) = None, group.rest  # noqa: PLW2901 - the block that it ended in
                parts = _parts(held, block, begins)
                if parts:
                    yield self._ended(parts)
                held = block.slice(int(begins[-1]))
            if held is not None:
                yield self._ended([Part(held, np.zeros(1, np.int64))])

    def _ended(self, parts: Sequence[Part]) -> pa.RecordBatch:
        measured = [] if self._measures is None else self._measures.of_groups(parts)
        return self._output([joined([part.first_of_each(key) for part in parts]) for key in self._keys], measured)

    def _long(self, group: _LongGroup) -> pa.RecordBatch:
        measured: list[pa.Array] = []
        if self._measures is not None:
            measured = self._measures.of_one_group(group.batches())
        else:
            for _ in group.batches():
                pass
        return self._output([group.first.column(key) for key in self._keys], measured)

    def _output(self, keys: list[pa.Array], measured: list[pa.Array]) -> pa.RecordBatch:
        return batch_of([*keys, *measured], len(keys[0]), self.schema)


def _parts(held: pa.RecordBatch | None, block: pa.RecordBatch, begins: Places) -> list[Part]:
    """The groups that end in a block: the group that was open before it, and groups that begin and end in it."""
    first, last = int(begins[0]), int(begins[-1])
    parts = []
    if held is not None:
        open_before = pa.concat_batches([held, block.slice(0, first)]) if first else held
        parts.append(Part(open_before, np.zeros(1, np.int64)))
    if last > first:
        parts.append(Part(block.slice(first, last - first), begins[:-1] - first))
    return parts


class _KeyedBlocks:
    """The blocks of a stream, each with the rows at which a group begins."""

    def __init__(self, rows: Stream, keys: Sequence[int], order: _OrderCheck | None, check: Callable[[], None]) -> None:
        self._blocks = gathered(rows, BLOCK_ROWS // 2, BLOCK_BYTES, 2 * BLOCK_ROWS)
        self._keys = keys
        self._order = order
        self._check = check
        self._last: list[pa.Array] | None = None

    def __iter__(self) -> Iterator[tuple[pa.RecordBatch, Places]]:
        return self

    def __next__(self) -> tuple[pa.RecordBatch, Places]:
        block = next(self._blocks)
        self._check()
        columns = [block.column(key) for key in self._keys]
        begins = starts(columns, self._last)
        if self._order is not None:
            self._order.check(block, begins)
        self._last = [column[-1:] for column in columns]
        return block, begins


class _OrderCheck:
    """A check that groups begin in the declared order. The order is by keys alone, so it can break only where a group
    begins.
    """

    def __init__(self, schema: pa.Schema, order: Sequence[Order], plan_path: str) -> None:
        self._columns = [sort_key.column for sort_key in order]
        self._names = [schema.field(i).name for i in self._columns]
        self._ordering = Ordering([replace(sort_key, column=i) for i, sort_key in enumerate(order)])
        self._plan_path = plan_path
        self._seen = 0
        self._last: pa.RecordBatch | None = None

    def check(self, block: pa.RecordBatch, begins: Places) -> None:
        first = pa.array(begins)
        heads = pa.RecordBatch.from_arrays([take(block.column(i), first) for i in self._columns], names=self._names)
        if self._last is not None and begins.size:
            heads = pa.concat_batches([self._last, heads])
        broken = self._ordering.keys(heads).first_break()
        if broken is not None:
            row = self._seen + int(begins[broken - (self._last is not None)])
            raise self._unsorted(row, [self._shown(heads, broken - 1), self._shown(heads, broken)])
        self._seen += block.num_rows
        self._last = heads[-1:] if heads.num_rows else self._last

    def _shown(self, heads: pa.RecordBatch, row: int) -> str:
        return shown_names({name: heads.column(at)[row] for at, name in enumerate(self._names)})

    def _unsorted(self, row: int, keys: Sequence[str]) -> ExecutionError:
        wanted = ", ".join(
            f"{name!r} {'descending' if order.descending else 'ascending'}"
            f" nulls {'first' if order.nulls_first else 'last'}"
            for name, order in zip(self._names, self._ordering.orders, strict=True)
        )
        return ExecutionError(
            f"{self._plan_path}: the input of the aggregate must be sorted by {wanted}: row {row} with {keys[1]} comes "
            f"after row {row - 1} with {keys[0]} (rows counted from 0)",
            reason="INPUT_NOT_SORTED",
        )


class _LongGroup:
    """A group that goes on for a block or more. `rest` has the rows behind it in the block that it ended in, and the
    starts of groups among them; None where no rows follow.
    """

    def __init__(self, held: pa.RecordBatch, block: pa.RecordBatch, source: _KeyedBlocks) -> None:
        self.first = held.slice(0, 1)
        self.rest: tuple[pa.RecordBatch, Places] | None = None
        self._begun = [held, block]
        self._source = source

    def batches(self) -> Generator[pa.RecordBatch]:
        """The group's rows, which can be read once."""
        while self._begun:
            yield self._begun.pop(0)
        for block, begins in self._source:
            if begins.size:
                end = int(begins[0])
                self.rest = block.slice(end), begins - end
                yield block.slice(0, end)
                return
            yield block


def _validate(
    input_schema: pa.Schema, keys: Sequence[int], measures: Sequence[Measure], schema: pa.Schema, plan_path: str
) -> None:
    if not keys and not measures:
        raise InternalError(f"{plan_path}: an aggregate without keys and without measures")
    if len(schema) != len(keys) + len(measures):
        raise InternalError(f"{plan_path}: {len(keys)} keys and {len(measures)} measures for {len(schema)} columns")
    for key, field in zip(keys, schema, strict=False):
        if not 0 <= key < len(input_schema):
            raise InternalError(f"{plan_path}: there is no column {key} to group by in {len(input_schema)} columns")
        type_ = input_schema.field(key).type
        if not type_.equals(field.type):
            raise InternalError(f"{plan_path}: the key {field.name!r} is {type_}, not {field.type} as the result says")


def _validate_order(input_schema: pa.Schema, keys: Sequence[int], order: Sequence[Order], plan_path: str) -> None:
    for sort_key in order:
        if sort_key.column not in keys:
            raise InternalError(f"{plan_path}: the input is sorted by column {sort_key.column}, which is not a key")
        reason = obstacle(input_schema.field(sort_key.column).type)
        if reason is not None:
            raise InternalError(f"{plan_path}: the input cannot be sorted by column {sort_key.column}: {reason}")
