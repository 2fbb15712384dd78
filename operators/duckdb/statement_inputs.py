"""The streams that a statement reads, epoch after epoch, through one registration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillRoom
from ...proto.errors import ExecutionError, InternalError
from ..arrays.nested_structs import from_the_start, has_nested_structs
from ..arrays.retype import unnamed
from ..core.batches import batch_of, joined
from ..core.blocks import blocks, gathered
from ..core.operator import Stream
from ..core.sizes import batch_bytes, fixed_row_bytes, row_bytes
from ..core.small_parts import in_small_parts
from ..core.wide_rows import PassingRows
from .held import HeldRows
from .long_values import LEAST_LONG, LONG, LongColumn, LongValues, sortable_text_bytes, unspilled_bytes

_PASSING_BYTES = 64 << 20
_PASSING_SHARE = 16
"""After so many bytes that go into a statement, or come out of it, or one part in so many of its memory, freed memory
goes back to the system: DuckDB takes all of its memory limit where it holds rows.
"""
_WIDE = 8 << 10
"""Bytes of a row of which DuckDB may hold a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSource:
    """An Arrow stream that a statement calls `relation`, with columns c0, c1, ...

    `size_class` is the power of ten at or above the stream's number of rows. `rows` is the number that DuckDB plans
    with, where it is known better. With `replayed` the statement may read the stream more than once: the fragment then
    puts it in a MATERIALIZED common table expression of that name. With `unnamed` the statement calls the fields of
    structs f1, f2, ..., whatever their names in the stream are. It does not look at long values of the columns `long`,
    by position. `growth` is the number of bytes that it may make of each byte, uncounted, so that it gets few at
    once; 0 where such bytes are counted.
    """

    relation: str
    schema: pa.Schema
    size_class: int
    replayed: bool = False
    unnamed: bool = False
    rows: int | None = None
    long: Mapping[int, LongColumn] = field(default_factory=dict)
    growth: int = 0

    @property
    def may_be_wide(self) -> bool:
        """True where the rows that the statement looks at may be wide."""
        seen = pa.schema(field for at, field in enumerate(self.schema) if at not in self.long)
        size = fixed_row_bytes(seen)
        return size is None or size > _WIDE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextSource:
    """A one-row relation with the epoch's clock readings, with the columns of `schema` under their own names."""

    relation: str
    schema: pa.Schema


def passing_rows(memory: int) -> PassingRows:
    """The rows that go into a statement of so much memory, or come out of it. Where it holds no rows, only wide ones
    count: the memory of others is best kept for the next.
    """
    return PassingRows(min(_PASSING_BYTES, memory // _PASSING_SHARE))


class ContextInput:
    """The context's row as DuckDB sees it. DuckDB may read it any number of times."""

    rows = 1

    def __init__(self, source: ContextSource) -> None:
        self.schema = source.schema
        self._row: pa.Table | None = None

    def set(self, row: pa.RecordBatch) -> None:
        if row.num_rows != 1 or not row.schema.equals(self.schema):
            raise InternalError("not the one context row that the fragment wants")
        self._row = pa.Table.from_batches([row])

    @property
    def is_set(self) -> bool:
        return self._row is not None

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        if self._row is None:
            raise InternalError("the context was read before it was set")
        row = self._row if columns is None else self._row.select(list(columns))
        return row.to_reader()


class FragmentInput:
    """A stream as DuckDB sees it. DuckDB reads it once an epoch, or, where its rows are held, once in each run of the
    statement. `failure` is the exception that was raised above the stream; `seen` and `bytes` count the rows of this
    run. `memory` is the statement's, and `plan_path` its place.
    """

    def __init__(
        self, source: StreamSource, *, strict: bool, check: Callable[[], None], memory: int, plan_path: str
    ) -> None:
        self.relation = source.relation
        self.rows = source.size_class if source.rows is None else source.rows
        self.failure: BaseException | None = None
        self.bytes = 0
        self.seen = 0
        self._strict = strict
        self._check = check
        self._growth = source.growth if source.may_be_wide else 0
        self._memory = memory
        self._plan_path = plan_path
        self._long = source.long
        self._is_ordered = any(column.ordered for column in source.long.values())
        self._beside: LongValues | None = None
        self._empty = not len(source.schema)
        self.schema = positional_schema(_unnamed(source.schema) if source.unnamed else source.schema)
        self._renamed = {at for at, field in enumerate(source.schema) if field.type != self.schema.field(at).type}
        self._nested = {at for at, field in enumerate(source.schema) if has_nested_structs(field.type)}
        self._source_schema = source.schema
        self._stream: Stream | None = None
        self._ahead: list[pa.RecordBatch] = []
        self._held: HeldRows | None = None
        self._again = False
        self._last = False
        self._asked = False
        self._block: pa.RecordBatch | None = None

    def begin(self, stream: Stream) -> None:
        """Hand out `stream` at the next read."""
        self._stream, self.failure, self._beside = stream, None, None
        self._restart()

    def read_ahead(self, most: int) -> int:
        """Read rows, to the end or until their values take more than `most` bytes, and return these bytes."""
        size = 0
        try:
            for batch in self._checked(iter(self._stream or ())):
                self._ahead.append(batch)
                size += int(row_bytes(batch).sum())
                if size > most:
                    break
        except BaseException as error:
            self.failure = error
            raise
        return size

    def put_aside(self, beside: LongValues) -> None:
        """Keep the stream's long values `beside`."""
        self._beside = beside
        if self._is_ordered:
            beside.before_ranks(self._take_all)

    def hold(self, most: int, room: SpillRoom) -> int:
        """Take the stream's rows into memory, to the end or until there are more than `most` bytes, and return the
        bytes.
        """
        if self._stream is None:
            raise InternalError(f"the stream {self.relation!r} was held outside of an epoch")
        if self._held is None:
            self._held = HeldRows(self._checked(self._cut(self._stream)), room)
        try:
            return self._held.fill(most)
        except BaseException as error:
            self.failure = error
            raise

    def whole(self, most_rows: int, most_bytes: int, room: Callable[[], SpillRoom]) -> pa.RecordBatch | None:
        """All rows of the stream as one batch, if there are no more than `most_rows` and `most_bytes`. Else None. The
        statement can read the rows even so.
        """
        if not self._long:
            return self._read_whole(most_rows, most_bytes)
        if self.hold(most_bytes, room()) > most_bytes or self._held is None:
            return None
        rows = self._held.joined(self._source_schema, most_rows)
        return None if rows is None else next(self._in_order((rows,)))

    def _read_whole(self, most_rows: int, most_bytes: int) -> pa.RecordBatch | None:
        """`whole` of rows without long values, which may be cut anywhere."""
        rows = size = 0
        try:
            for batch in self._checked(iter(self._stream or ())):
                self._ahead.append(batch)
                rows += batch.num_rows
                size += batch_bytes(batch)
                if rows > most_rows or size > most_bytes:
                    return None
        except BaseException as error:
            self.failure = error
            raise
        return joined(self._ahead, self._source_schema)

    def one_by_one(self) -> Iterator[pa.RecordBatch]:
        """The rows, cut anywhere, for `hand_out`."""
        if self._stream is None:
            raise InternalError(f"the stream {self.relation!r} was read outside of an epoch")
        held = self._held
        rows = self._checked(self._named(self._stream)) if held is None else held.read(again=False, last=True)
        yield from gathered(rows)
        self._block = None

    def hand_out(self, block: pa.RecordBatch) -> None:
        """Hand out these rows at the next read, as if there were no others."""
        self._block, self._asked = block, False

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row, among the rows that were read or are held."""
        if self.seen:
            return self.bytes // self.seen
        return 0 if self._held is None else self._held.row_bytes

    @property
    def held_rows(self) -> int:
        """The rows in memory."""
        return 0 if self._held is None else self._held.rows

    def keep(self) -> None:
        """Hold also rows that only the running statement reads, so that it can be run again."""
        self._again = True

    def read_last(self) -> None:
        """Hand out the rows for the last time: none is kept in memory afterwards."""
        self._last = True

    def read_again(self) -> None:
        """Hand out the same rows at the next read."""
        self._again = False
        self._restart()

    def end(self) -> None:
        """End the epoch: drop its stream and rows."""
        held, self._held, self._again, self._block, self._beside = self._held, None, False, None, None
        self._last, self._ahead = False, []
        if held is not None:
            held.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _restart(self) -> None:
        self._asked, self.bytes, self.seen = False, 0, 0

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        if self._stream is None or self._asked:
            self.failure = InternalError(
                f"the stream {self.relation!r} was read twice in one epoch, and is not marked as replayed"
                if self._asked
                else f"the stream {self.relation!r} was read outside of an epoch"
            )
            raise self.failure
        self._asked = True
        schema = self.schema if columns is None else pa.schema([self.schema.field(i) for i in columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(self._stream, schema, columns))

    def _batches(self, stream: Stream, schema: pa.Schema, columns: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        positions = range(len(schema)) if columns is None else columns
        rows = self._rows(stream) if self._block is None else iter((self._block,))
        passing = passing_rows(self._memory)
        try:
            for batch in rows:
                size = batch_bytes(batch)
                passing.add_bytes(size)
                self.bytes += size
                self.seen += batch.num_rows
                arrays = [pa.nulls(batch.num_rows, pa.int8())] if self._empty else self._columns(batch, positions)
                yield batch_of(arrays, batch.num_rows, schema)
            passing.end()  # a statement that holds its rows is about to put them in order
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise
        finally:
            if not self._again and self._block is None:
                self._close(stream)

    def _close(self, stream: Stream) -> None:
        """Close the stream. DuckDB loses an error of this call, so that the fragment raises it."""
        try:
            stream.close()
        except Exception as error:  # noqa: BLE001  # kept for the fragment
            self.failure = self.failure or error

    def _columns(self, batch: pa.RecordBatch, positions: Iterable[int]) -> list[pa.Array]:
        if not self._renamed and not self._nested:
            return [batch.column(at) for at in positions]
        return [self._column(batch.column(at), at) for at in positions]

    def _column(self, column: pa.Array, at: int) -> pa.Array:
        if at in self._nested:
            column = from_the_start(column)
        return column.view(self.schema.field(at).type) if at in self._renamed else column

    def _rows(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        if self._held is None and self._is_ordered and self._beside is not None:
            self._held = HeldRows(self._checked(self._cut(stream)), self._beside.room)
        rows = (
            self._checked(self._cut(stream))
            if self._held is None
            else self._held.read(again=self._again, last=self._last)
        )
        return self._in_order(rows)

    def _in_order(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with names that have the order of their values, where the statement asks for the order."""
        if not self._is_ordered or self._beside is None:
            return iter(rows)
        beside, long = self._beside, self._long
        return (beside.ordered(batch, long) for batch in rows)

    def _take_all(self, room: SpillRoom) -> None:
        """Name all rows, and keep those that were not read yet."""
        if self._stream is None:
            return
        try:
            if self._held is None:
                self._held = HeldRows(self._checked(self._cut(self._stream)), room)
            self._held.store()
        except BaseException as error:
            self.failure = error
            raise

    def _cut(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        if self._growth:
            return in_small_parts(self._named(stream), self._memory, self._growth, self._plan_path)
        return blocks(self._named(stream)) if self._strict else self._named(stream)

    def _named(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        """The rows without their long values. Blocks are cut afterwards, so that no block holds those."""
        rows = self._all(stream) if self._ahead else iter(stream)
        if not self._long or self._beside is None:
            return rows
        beside, long = self._beside, self._long
        return (beside.named(batch, long) for batch in rows)

    def _all(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        """The rows that were read ahead, then the rest."""
        ahead, self._ahead = self._ahead[::-1], []
        while ahead:
            yield ahead.pop()
        yield from stream

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._check()
            yield batch


def _unnamed(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(unnamed(field.type)) for field in schema])


def positional_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with columns c0, c1, ... A relation without columns gets one, because its rows still count."""
    for column in schema:
        obstacle = _refused(column.type)
        if obstacle:
            raise ExecutionError(f"column {column.name!r} is {column.type}: {obstacle}", reason="UNSUPPORTED_TYPE")
    fields = [pa.field(f"c{i}", column.type) for i, column in enumerate(schema)]
    return pa.schema(fields or [pa.field("c0", pa.int8())])


def _refused(type_: pa.DataType) -> str | None:
    """The reason why DuckDB would refuse values of this type, or change them silently; None where it would not."""
    if pa.types.is_float16(type_):
        return "half floats have no counterpart in DuckDB"
    if pa.types.is_decimal256(type_):
        return "decimals have at most 38 digits"
    if pa.types.is_decimal(type_) and type_.scale < 0:
        return "a decimal's scale must not be negative"
    if pa.types.is_union(type_) and type_.mode == "dense":
        return "dense unions have no counterpart in DuckDB"
    if pa.types.is_duration(type_) and type_.unit == "ns":
        return "spans are kept in microseconds"
    if pa.types.is_nested(type_):
        inner = (_refused(type_.field(i).type) for i in range(type_.num_fields))
        return next((obstacle for obstacle in inner if obstacle), None)
    return None


def long_bytes(inputs: Iterable[FragmentInput], columns: int, memory: int) -> int:
    """The most bytes of a value that is not long, in so many columns: rows are narrow enough to be sorted, if a sort
    has to spill, and to be grouped.
    """
    sortable = max(sortable_text_bytes(memory) // columns, LEAST_LONG)
    if sortable >= LONG:
        return LONG
    most = unspilled_bytes(memory)
    for relation in inputs:
        most -= relation.read_ahead(most)
        if most < 0:
            return sortable
    return LONG
