"""Rows in canonical order: all columns ascending from left to right, nulls last, NaN above numbers, -0.0 as 0.0.

NumPy sorts rows several times faster than DuckDB does. Whole numbers and times are packed into one word a row, which is
sorted as a number and unpacked again. Other rows are sorted by as few words as hold their keys, and then taken in that
order.

Memory: up to `most` bytes of rows, and two to four times as much while they are sorted. More rows go, sorted, to files,
which are merged in the end.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ...proto.arrow.spill_buffer import SpillRoom
from ..arrays.layout import Values, Words, dtype_of, values
from ..arrays.ordering import Order, Ordering
from ..arrays.sorted_merge import merged
from ..arrays.stretches import Stretch, words_of
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS, blocks
from ..core.interrupts import beside, look
from ..core.sizes import batch_bytes
from ..core.streams import BatchStream
from ..core.wide_rows import concatenated, taken
from .held import HeldRows

MOST: Final = 1 << 30
"""The most bytes of rows that are sorted together, below the bytes that an array of texts can have."""

_WORD_BITS: Final = 63

_Packed: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]


def in_canonical_order(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, most: int, room: SpillRoom
) -> Generator[pa.RecordBatch]:
    """All rows in canonical order, in blocks, once `batches` has ended. Closing the generator removes its files; it
    does not close `batches`.
    """
    ordering = Ordering([Order(column=at) for at in range(len(schema))])
    held: list[pa.RecordBatch] = []
    size = 0
    with ExitStack() as stack:
        runs: list[HeldRows] = []
        for batch in batches:
            look()
            held.append(batch)
            size += batch_bytes(batch)
            if size > min(most, MOST):
                run = HeldRows(_sorted(held, schema, ordering), room)
                stack.callback(run.close)
                run.store()
                runs.append(run)
                held, size = [], 0
        if not runs:
            yield from _sorted(held, schema, ordering)
            return
        streams = [BatchStream(schema, run.read(again=False)) for run in runs]
        if held:
            streams.append(BatchStream(schema, _sorted(held, schema, ordering)))
            held = []
        rows = stack.enter_context(closing(merged(streams, ordering)))
        yield from blocks(rows)


def _sorted(batches: Sequence[pa.RecordBatch], schema: pa.Schema, ordering: Ordering) -> Iterator[pa.RecordBatch]:
    """All rows of the batches, in order, in blocks."""
    if not batches:
        return iter(())
    packing = _packing(batches, schema)
    if packing is not None:
        return packing.sorted(batches, schema)
    together = concatenated(list(batches))
    words = _few(list(words_of([Stretch(ordering.keys(together), 0, together.num_rows)])))
    order = beside(lambda: _order(words), together.num_rows)
    return blocks([beside(lambda: taken(together, pa.array(order)), together.num_rows)])


def _order(words: Sequence[Words]) -> Words:
    return np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])


def _few(words: Sequence[Words]) -> list[Words]:
    """Words of the same order, with neighbours joined where their ranges fit into one word."""
    packed: list[Words] = []
    left = 0
    for word in words:
        low = int(word.min())
        bits = (int(word.max()) - low).bit_length()
        if bits > _WORD_BITS:
            packed.append(word)
            left = 0
        elif not packed or bits > left:
            packed.append(word - low)
            left = _WORD_BITS - bits
        else:
            packed[-1] = (packed[-1] << bits) | (word - low)
            left -= bits
    return packed


@dataclass(frozen=True, slots=True)
class _Field:
    """A column's part of a word: its values, counted from `low`, in so many bits."""

    low: int
    bits: int


@dataclass(frozen=True, slots=True)
class _Packing:
    """The packing of a whole row into a word, most significant column first. Words are packed and unpacked a block at a
    time, so that intermediate values stay in the processor's cache.
    """

    fields: tuple[_Field, ...]

    def sorted(self, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        words = self._words(batches)
        words.sort()
        starts = range(0, len(words), BLOCK_ROWS)
        return (self._rows(words[start : start + BLOCK_ROWS], schema) for start in starts)

    def _words(self, batches: Sequence[pa.RecordBatch]) -> _Packed:
        half = sum(field.bits for field in self.fields) <= 32
        words = np.empty(sum(batch.num_rows for batch in batches), np.uint32 if half else np.int64)
        counted = np.empty(BLOCK_ROWS, words.dtype)
        first, *others = self.fields
        at = 0
        for batch in batches:
            for start in range(0, batch.num_rows, BLOCK_ROWS):
                look()
                numbers = [values(column)[start : start + BLOCK_ROWS] for column in batch.columns]
                part = words[at : at + len(numbers[0])]
                at += len(part)
                _count(numbers[0], first, part)
                for column, field in zip(numbers[1:], others, strict=True):
                    np.left_shift(part, field.bits, out=part)
                    np.bitwise_or(part, _count(column, field, counted[: len(part)]), out=part)
        return words

    def _rows(self, words: _Packed, schema: pa.Schema) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        shift = 0
        for field, kind in zip(reversed(self.fields), reversed(schema.types), strict=True):
            part = words >> shift if shift else words
            if len(columns) + 1 < len(self.fields):
                part = part & ((1 << field.bits) - 1)
            numbers = np.empty(len(words), dtype_of(kind))
            np.add(part, field.low, out=numbers, dtype=np.int64, casting="unsafe")
            columns.append(pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(numbers)]))
            shift += field.bits
        return batch_of(columns[::-1], len(words), schema)


def _count(column: Values, field: _Field, into: _Packed) -> _Packed:
    return np.subtract(column, field.low, out=into, dtype=np.int64, casting="unsafe")


def _packing(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> _Packing | None:
    """The packing of the rows; None for rows with nulls, floats, texts, or values too far apart."""
    if not all(map(_is_packed, schema.types)):
        return None
    fields: list[_Field] = []
    for at in range(len(schema)):
        arrays = [batch.column(at) for batch in batches if batch.num_rows]
        if not arrays or any(array.null_count for array in arrays):
            return None
        bounds = [(int(numbers.min()), int(numbers.max())) for numbers in map(values, arrays)]
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        fields.append(_Field(low, (high - low).bit_length()))
    return _Packing(tuple(fields)) if sum(field.bits for field in fields) <= _WORD_BITS else None


def _is_packed(kind: pa.DataType) -> bool:
    dtype = dtype_of(kind)
    return dtype is not None and dtype != "u8" and dtype[0] in "iu" and not kinds.is_decimal(kind)
