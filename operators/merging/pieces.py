"""Assembles the rows of a merge join from rows of its two sides, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Words
from ..core.batches import batch_of
from ..core.blocks import BLOCK_BYTES
from ..core.sizes import row_bytes
from .kinds import Meaning

Rows: TypeAlias = Words | slice
"""Row numbers in a batch. -1 is no row: its columns are null."""


class Pieces:
    """A builder of batches of the output's schema: the left side's columns come first. Types without pairs have one
    side's columns alone.
    """

    def __init__(self, meaning: Meaning, schema: pa.Schema, probe: pa.Schema, held: pa.Schema) -> None:
        self._meaning = meaning
        self._schema = schema
        self._probe = probe
        self._held = held

    def pairs(
        self, probe: pa.RecordBatch, probe_rows: Words, held: pa.RecordBatch, held_rows: Words
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these pairs."""
        for part in affordable(probe, probe_rows, held, held_rows):
            one, other = together(probe_rows[part]), together(held_rows[part])
            yield self._made(picked(probe, one), picked(held, other), number_of(one))

    def probe_alone(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._meaning.pairs:
            return self._made(rows.columns, [], rows.num_rows)
        return self._made(rows.columns, _nulls(self._held, rows.num_rows), rows.num_rows)

    def held_alone(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._made(_nulls(self._probe, rows.num_rows), rows.columns, rows.num_rows)

    def _made(self, probe: list[pa.Array], held: list[pa.Array], rows: int) -> pa.RecordBatch:
        columns = [*held, *probe] if self._meaning.probe_right else [*probe, *held]
        return batch_of(columns, rows, self._schema)


def number_of(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def picked(batch: pa.RecordBatch, rows: Rows) -> list[pa.Array]:
    """The columns of these rows. Rows that are neighbours in order are not copied."""
    if isinstance(rows, slice):
        columns: list[pa.Array] = batch.slice(rows.start, rows.stop - rows.start).columns
        return columns
    missing = rows < 0
    if missing.any():
        return _padded(batch, rows, missing)
    indices = pa.array(rows)
    return [column.take(indices) for column in batch.columns]


def _padded(batch: pa.RecordBatch, rows: Words, missing: Flags) -> list[pa.Array]:
    """The columns of these rows, null where a row is missing."""
    if not batch.num_rows:
        return _nulls(batch.schema, len(rows))
    indices = pa.array(rows, mask=missing)
    some = pa.array(np.maximum(rows, 0))
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return [_hidden(column.take(some), valid) if _fixed(column) else column.take(indices) for column in batch.columns]


def _fixed(column: pa.Array) -> bool:
    return not column.null_count and (kinds.is_primitive(column.type) or kinds.is_decimal128(column.type))


def _hidden(array: pa.Array, valid: pa.Buffer) -> pa.Array:
    """A column of fixed width under another validity. (Taking nulls costs Arrow several times as much.)"""
    return pa.Array.from_buffers(array.type, len(array), [valid, array.buffers()[1]], offset=array.offset)


def together(rows: Words) -> Rows:
    """`rows` as a slice where they are neighbours in order."""
    if len(rows) and rows[0] >= 0 and rows[-1] - rows[0] == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def affordable(probe: pa.RecordBatch, probe_rows: Words, held: pa.RecordBatch, held_rows: Words) -> Iterator[slice]:
    """The pairs in parts of some megabytes. A wide row may stand in many pairs."""
    sizes = [_Sizes(batch, rows) for batch, rows in ((probe, probe_rows), (held, held_rows))]
    if len(probe_rows) * sum(side.largest for side in sizes) <= BLOCK_BYTES:
        yield slice(0, len(probe_rows))
        return
    up_to = np.cumsum(sizes[0].of(probe_rows) + sizes[1].of(held_rows))
    start = 0
    while start < len(probe_rows):
        before = int(up_to[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(up_to, before + BLOCK_BYTES, side="right")))
        yield slice(start, stop)
        start = stop


class _Sizes:
    """The bytes of each of these rows. Other rows of the batch are not looked at, but for those between: the same batch
    may be asked about again and again.
    """

    def __init__(self, batch: pa.RecordBatch, rows: Words) -> None:
        some = rows[rows >= 0]
        self._first = int(some.min()) if len(some) else 0
        count = int(some.max()) + 1 - self._first if len(some) else 0
        self._sizes = np.append(row_bytes(batch.slice(self._first, count)), 0)
        self.largest = int(self._sizes.max())

    def of(self, rows: Words) -> Words:
        return self._sizes[np.where(rows < 0, -1, rows - self._first)]


class Insertion:
    """An insertion of values before these ascending `positions` of arrays of `length` rows."""

    def __init__(self, positions: Words, length: int) -> None:
        self._positions = positions + np.arange(len(positions))
        self._kept = np.ones(length + len(positions), dtype=np.bool_)
        self._kept[self._positions] = False

    def into(self, rows: Words, values: Words | int) -> Words:
        merged = np.empty(len(self._kept), dtype=np.int64)
        merged[self._positions] = values
        merged[self._kept] = rows
        return merged


def _nulls(schema: pa.Schema, rows: int) -> list[pa.Array]:
    return [pa.nulls(rows, field.type) for field in schema]
